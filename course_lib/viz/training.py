"""Loss curves of training runs.

May import: style, drawing, line_charts, matplotlib.
"""

from .drawing import clean, empty_picture, grid_lines, name_axes
from .line_charts import line_look
from .style import INK, Picture


def loss_picture(runs, *, title="loss of the small model"):
    """Training loss as lines and validation loss as marks, over the steps; a colour, a dash and a mark a run.

    Parameters
    ----------
    runs : dict, name -> rows in order, each a dict with step, loss (the mean since the row before) and
        validation_loss (or None); losses in nats a token
    """
    runs = {name: rows for name, rows in runs.items() if rows}
    if not runs:
        return empty_picture(title)
    alt_text = "; ".join(_run_text(name, rows) for name, rows in runs.items())
    figure = Picture(7.8, 3.6, f"{title}, nats a token. {alt_text}.")
    axes = figure.subplots()
    for number, (name, rows) in enumerate(runs.items()):
        look = line_look(number)
        marker = look.pop("marker")
        axes.plot([row["step"] for row in rows], [row["loss"] for row in rows], **look, linewidth=1.3, label=name)
        steps, losses = zip(*_validated(rows), strict=True) if _validated(rows) else ((), ())
        marks = {"marker": marker, "linestyle": "none", "markersize": 5, "markeredgecolor": INK}
        axes.plot(steps, losses, color=look["color"], **marks, label=f"{name}, validation")
    axes.legend(fontsize=8.5, frameon=False, ncols=len(runs))
    name_axes(axes, "step", "nats a token", title)
    clean(axes)
    grid_lines(axes, "y")
    return figure


def _validated(rows):
    return [(row["step"], row["validation_loss"]) for row in rows if row["validation_loss"] is not None]


def _run_text(name, rows):
    first, last, validated = rows[0], rows[-1], _validated(rows)
    text = (
        f"{name}: {first['loss']:.2f} in the first {first['step']} steps, {last['loss']:.2f} at step {last['step']:,}"
    )
    if not validated:
        return text
    step, loss = min(validated, key=lambda point: point[1])
    return f"{text}, validation at best {loss:.2f} at step {step:,}"
