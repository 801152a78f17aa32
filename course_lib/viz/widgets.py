"""Interactive pictures: ipywidgets on top of the still ones. Each function returns an ipywidgets.VBox.

They need a running kernel; a page without one shows the still picture in their saved output.

May import: the pictures they animate, ipywidgets.
"""

import ipywidgets as widgets

from .footprint import growth_picture, growth_sentence, growth_step
from .loops import both_sentences, loop_orders_picture, loop_orders_still, loop_picture, loop_step_picture, loop_steps
from .memory import lanes_picture
from .pages import pages_frames, pool_sentence
from .softmax import step_picture, walk, walk_picture
from .timeline import waves_picture

WARP_SIZE = 32
GROWTH_SEQ_LENS = (512, 1024, 2048, 4096, 8192, 16384)
MAX_NUMBER = 33  # of a pattern: the largest stride is one more than there are banks
_MAX_TILES = 64


class BoxWithStill(widgets.VBox):
    """A box whose saved output also holds a picture, which a page without a kernel shows."""

    still = None  # Picture

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        png, png_metadata = self.still._repr_mimebundle_()
        return {**data, **png}, {**metadata, **png_metadata}


class Frames:
    """A picture and its sentence under some controls; every frame is drawn once and then shown from memory.

    Subclasses define `draw(key)`, which returns a Picture and a sentence.

    Attributes
    ----------
    picture, words : widgets, the frame shown
    alt_text : str, of the frame shown
    frames : dict, key -> (Picture, its PNG bytes, sentence)
    box : BoxWithStill, all of it
    """

    def __init__(self, controls, width, still):
        self.frames, self.alt_text = {}, ""
        self.picture = widgets.Image(format="png", layout=widgets.Layout(width=f"{width}px", max_width="100%"))
        self.words = widgets.HTML()
        self.box = BoxWithStill([*controls, self.picture, self.words])
        self.box.still = still

    def show(self, key):
        """Show the frame of `key`."""
        if key not in self.frames:
            picture, sentence = self.draw(key)
            self.frames[key] = picture, picture.png(), sentence
        picture, self.picture.value, self.words.value = self.frames[key]
        self.alt_text = picture.alt_text


class Player(Frames):
    """Frames 1 to `num_frames` with a slider and a play button; the key of a frame counts from 0."""

    def __init__(self, num_frames, width, still, *, name="step", interval_ms=1500, fields=()):
        self.play = widgets.Play(interval=interval_ms, min=1, max=num_frames, value=1)
        self.slider = widgets.IntSlider(min=1, max=num_frames, description=name, continuous_update=True)
        widgets.jslink((self.play, "value"), (self.slider, "value"))
        self.slider.observe(lambda _change: self.show(self.slider.value - 1), names="value")
        super().__init__([*fields, widgets.HBox([self.play, self.slider])], width, still)


def stepper(row, block_n=2):
    """Step through an online softmax: a slider and a play button for the tile, fields for the row and the tile width.

    Parameters
    ----------
    row : sequence of numbers; can be changed in the widget, -inf is a masked score
    block_n : int, tile width
    """
    return Stepper(row, block_n).box


class Stepper(Player):
    """The parts of `stepper`: `slider`, `play`, `numbers`, `width`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, row, block_n):
        text = ", ".join(f"{value:g}" for value in row)
        self.numbers = widgets.Text(text, description="row", continuous_update=False)
        self.width = widgets.BoundedIntText(block_n, min=1, max=_MAX_TILES, description="tile width")
        fields = [widgets.HBox([self.numbers, self.width])]
        super().__init__(1, 750, walk_picture(walk(row, block_n)), name="tile", fields=fields)
        for field in (self.numbers, self.width):
            field.observe(self._restart, names="value")
        self._restart()

    def _restart(self, _change=None):
        """Walk over new numbers or with a new tile width, from the first tile."""
        try:
            row = [float(word) for word in self.numbers.value.replace(",", " ").split()]
            self.steps = walk(row, self.width.value)
        except ValueError:
            self.words.value = "Write numbers separated by commas, for example: 1, 3, -inf, 0.5"
            return
        self.frames = {}
        self.play.max = self.slider.max = len(self.steps)
        self.slider.value = 1
        self.show(0)

    def draw(self, number):
        return step_picture(self.steps, number), self.steps[number].sentence()


def growth_slider(seq_lens=GROWTH_SEQ_LENS, *, start=4096, head_dim=64):
    """The growing matrix of scores with a slider over N.

    Parameters
    ----------
    seq_lens : sequence of int, the stops of the slider, smallest first
    start : int, its first value; one of `seq_lens`
    head_dim : int
    """
    return Growth(seq_lens, start, head_dim).box


class Growth(Frames):
    """The parts of `growth_slider`: `slider`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, seq_lens, start, head_dim):
        self.largest, self.head_dim = max(seq_lens), head_dim
        stops = [(f"{n:,}", n) for n in seq_lens]
        self.slider = widgets.SelectionSlider(options=stops, value=start, description="N", continuous_update=True)
        self.slider.observe(lambda _change: self.show(self.slider.value), names="value")
        super().__init__([self.slider], 640, growth_picture(head_dim=head_dim))
        self.show(start)

    def draw(self, seq_len):
        sentence = growth_sentence(seq_len, head_dim=self.head_dim)
        return growth_step(seq_len, self.largest, head_dim=self.head_dim), f"{sentence}."


def tile_loops(seq_len_q=8, seq_len_kv=8, head_dim=4, block_m=2, block_n=2, *, loop_order="kv_outside"):
    """Play the two loops of FlashAttention tile by tile.

    Parameters
    ----------
    seq_len_q, seq_len_kv, head_dim, block_m, block_n : as in `loop_steps`
    loop_order : "kv_outside", "q_outside" or "both", which plays them side by side
    """
    if loop_order not in ("kv_outside", "q_outside", "both"):
        raise ValueError(f'loop_order={loop_order!r} is unknown; choose "kv_outside", "q_outside" or "both".')
    sizes = (seq_len_q, seq_len_kv, head_dim, block_m, block_n)
    if loop_order == "both":
        return LoopOrders(*(loop_steps(*sizes, q_outside=outside) for outside in (False, True))).box
    return TileLoops(loop_steps(*sizes, q_outside=loop_order == "q_outside")).box


class TileLoops(Player):
    """The parts of `tile_loops`: `slider`, `play`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, steps):
        self.steps = steps
        super().__init__(len(steps), 750, loop_picture(steps), interval_ms=700)
        self.show(0)

    def draw(self, number):
        return loop_step_picture(self.steps, number), self.steps[number].sentence()


class LoopOrders(Player):
    """The same with both orders at once; their lists of steps have one length."""

    def __init__(self, kv_outside, q_outside):
        self.pair = (kv_outside, q_outside)
        super().__init__(len(kv_outside), 750, loop_orders_still(self.pair), interval_ms=700)
        self.show(0)

    def draw(self, number):
        return loop_orders_picture(self.pair, number), both_sentences(self.pair, number)


def pages_player(frames, page_size, num_pages, *, still=()):
    """Play the states of a pool one after the other.

    Parameters
    ----------
    frames : sequence of (title, sequences), as in `pages_frames`
    page_size, num_pages : int, as in `pages_picture`
    still : sequence of int, the frames that a page without a kernel shows; default: the last
    """
    return PagesPlayer(frames, page_size, num_pages, still or (len(frames) - 1,)).box


class PagesPlayer(Player):
    """The parts of `pages_player`: `slider`, `play`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, frames, page_size, num_pages, still):
        self.states, self.sizes = list(frames), (page_size, num_pages)
        super().__init__(len(frames), 840, self._picture([self.states[number] for number in still]), interval_ms=1200)
        self.show(0)

    def _picture(self, states):
        return pages_frames(states, *self.sizes, among=self.states)

    def draw(self, number):
        title, sequences = self.states[number]
        return self._picture([(title, sequences)]), f"{title}: {pool_sentence(sequences, self.sizes[1])}"


def waves_slider(num_pairs=48, num_slots=132, *, most_splits=24, still=(1, 2, 3, 11)):
    """Waves of blocks with a slider over the number of splits, each beside one split.

    Parameters
    ----------
    num_pairs, num_slots : as in `waves_picture`
    most_splits : int, the end of the slider
    still : sequence of int, the splits of the still picture
    """
    return Waves(num_pairs, num_slots, most_splits, still).box


class Waves(Frames):
    """The parts of `waves_slider`: `slider`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, num_pairs, num_slots, most_splits, still):
        self.num_pairs, self.num_slots = num_pairs, num_slots
        limits = {"min": 2, "max": most_splits, "value": 3}
        self.slider = widgets.IntSlider(**limits, description="splits", continuous_update=True)
        self.slider.observe(lambda _change: self.show(self.slider.value), names="value")
        super().__init__([self.slider], 820, waves_picture(num_pairs, still, num_slots))
        self.show(3)

    def draw(self, splits):
        picture = waves_picture(self.num_pairs, (1, splits), self.num_slots)
        return picture, picture.alt_text


PATTERNS = {  # name -> (word that a lane touches, the load in code)
    "stride": (lambda lane, number: lane * number, "x[{} * lane]"),
    "offset": (lambda lane, number: lane + number, "x[lane + {}]"),
    "backwards, stride": (lambda lane, number: (WARP_SIZE - 1 - lane) * number, "x[{} * (31 - lane)]"),
    "groups of lanes share a word": (lambda lane, number: lane // number, "x[lane / {}]"),
    "one word for all": (lambda lane, number: number, "x[{}]"),
}


def access_explorer(record, *, pattern="stride", number=1):
    """A drop-down for the pattern and a slider for its number over the picture of the recorded access.

    Parameters
    ----------
    record : callable, list of 32 words -> memory.Access; runs a kernel that touches them
    pattern : str, a key of PATTERNS
    number : int, 0 to 33: stride, offset, size of a group or the word itself
    """
    return Explorer(record, pattern, number).box


class Explorer(Frames):
    """The parts of `access_explorer`: `pattern`, `number`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, record, pattern, number):
        self.record = record
        wide = {"description_width": "initial"}
        self.pattern = widgets.Dropdown(options=list(PATTERNS), value=pattern, description="pattern", style=wide)
        self.number = widgets.IntSlider(number, min=0, max=MAX_NUMBER, description="number", continuous_update=False)
        super().__init__([widgets.HBox([self.pattern, self.number])], 780, None)
        for control in (self.pattern, self.number):
            control.observe(lambda _change: self.show(self._key()), names="value")
        self.show(self._key())
        self.box.still = self.frames[self._key()][0]

    def _key(self):
        name = self.pattern.value
        return name, max(self.number.value, 1 if "group" in name else 0)  # a group has at least one lane

    def draw(self, key):
        (word, code), number = PATTERNS[key[0]], key[1]
        access = self.record([word(lane, number) for lane in range(WARP_SIZE)])
        return lanes_picture(access, code.format(number)), f"Recorded: {access.sentence()}"
