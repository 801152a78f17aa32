"""What serving a model costs: fields for model, card, users, context and price over measure.serving_cost.

Returns an ipywidgets.VBox, whose saved output is a player over numbers of users, which needs no kernel.

May import: bar_charts, player, widgets, measure.serving_cost, ipywidgets.
"""

import ipywidgets

from ..errors import CourseError
from ..measure import serving_cost
from .bar_charts import time_bars
from .player import Frame, Player
from .widgets import BoxWithPlayer

SAVED_USERS = (1, 8, 32, 128, 512)
_WEIGHT_BYTES = {"half precision": 2.0, "fp8": 1.0, "four bits": 0.53}  # a parameter; four bits with their scales
_MOST_USERS, _MOST_CONTEXT = 1_000_000, 2_000_000


def cost_calculator(model="Llama 3.1 8B", card="H200", *, users=32, context=8000, euro_per_hour=3.0):
    """Cards, tokens a second and euro a million tokens of a model, at the roof, beside the parts of a step.

    Parameters
    ----------
    model, card : str, keys of measure.serving_cost.MODELS and LINK_GBPS
    users, context : int; tokens in the cache of each user
    euro_per_hour : of one card; prices differ by a factor of several, so type in yours
    """
    return Calculator(model, card, users, context, euro_per_hour).box


class Calculator:
    """The parts of `cost_calculator`: a field for each input, `words`, `picture`, and `box` that holds them."""

    def __init__(self, model, card, users, context, euro_per_hour):
        wide = {"style": {"description_width": "initial"}}
        self.model = ipywidgets.Dropdown(options=list(serving_cost.MODELS), value=model, description="model")
        self.card = ipywidgets.Dropdown(options=list(serving_cost.LINK_GBPS), value=card, description="card")
        self.weights = ipywidgets.Dropdown(options=list(_WEIGHT_BYTES), description="weights in", **wide)
        self.users = ipywidgets.BoundedIntText(users, min=1, max=_MOST_USERS, description="users")
        self.context = ipywidgets.BoundedIntText(context, min=1, max=_MOST_CONTEXT, description="context")
        self.price = ipywidgets.BoundedFloatText(
            euro_per_hour, min=0.01, max=1000.0, description="euro an hour and card", **wide
        )
        self.share = ipywidgets.BoundedIntText(100, min=1, max=100, description="% of the roof", **wide)
        self.words, self.picture = ipywidgets.HTML(), ipywidgets.HTML()
        fields = (self.model, self.card, self.weights, self.users, self.context, self.price, self.share)
        for field in fields:
            field.observe(self._show, names="value")
        rows = [ipywidgets.HBox(fields[:3]), ipywidgets.HBox(fields[3:5]), ipywidgets.HBox(fields[5:])]
        self.box = BoxWithPlayer([*rows, self.words, self.picture])
        self._show()
        self.box.player = self._player()

    def frame(self, users):
        """The Frame of so many users; CourseError where eight cards do not hold one of them."""
        inputs = {
            "users": users,
            "context": self.context.value,
            "euro_per_hour": self.price.value,
            "weight_bytes": _WEIGHT_BYTES[self.weights.value],
            "share": self.share.value / 100,
        }
        plan = serving_cost.plan(self.model.value, self.card.value, **inputs)
        parts = {name: 1e3 * seconds for name, seconds in plan.seconds.items()}
        title = f"parts of a step at the roof, {plan.batch} users on {plan.tensor_parallel} {self.card.value}"
        return Frame(time_bars(parts, title=title, unit="ms"), _sentence(plan, users), f"{users:,} users")

    def _show(self, _change=None):
        try:
            frame = self.frame(self.users.value)
        except CourseError as error:
            self.words.value, self.picture.value = str(error), ""
            return
        self.words.value, self.picture.value = frame.sentence, frame.picture.html()

    def _player(self):
        """Numbers of users, from the one asked for."""
        numbers = sorted({*SAVED_USERS, self.users.value})
        frames = [self.frame(users) for users in numbers]
        start = numbers.index(self.users.value)
        return Player({"": frames}, frames[start].picture, name="users", start=start)


def _sentence(plan, users):
    """What a plan comes to, in one sentence."""
    cards, give = (f"{plan.cards:,} cards", "give") if plan.cards > 1 else ("1 card", "gives")
    how = f", {plan.replicas:,} times {plan.tensor_parallel}," if plan.cards > 1 else ""
    return (
        f"{cards}{how} {give} {users:,} user{'s' * (users > 1)} a token every {1e3 * plan.step_seconds:,.1f} ms each, "
        f"{plan.tokens_per_second:,.0f} tokens a second in all, for {plan.euro_per_million:,.2f} euro a million new "
        f"tokens and {plan.prompt_euro_per_million:,.3f} a million tokens of prompts. Longest in a step: {plan.limit}."
    )
