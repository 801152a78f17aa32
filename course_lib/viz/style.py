"""One look for every figure: a palette that colour-blind eyes can tell apart, white ground, small files, alt text.

Palette: M. Okabe, K. Ito, "Color Universal Design", 2008, https://jfly.uni-koeln.de/color/. Nothing is said by colour
alone: pictures repeat it as a hatch, an outline or a word.
"""

import base64
import io

from matplotlib import rcParams
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
INK, GREY, PALE = "#222222", "#777777", "#DDDDDD"
HATCHES = ("", "///", "xx", "..", "\\\\\\")
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY)
_DPI = 170  # crisp on a dense screen; shown at 100 CSS pixels an inch
_CSS_PIXELS_PER_INCH = 100
_COLOURS = 64  # flat pictures lose nothing, and the file shrinks to a third


class Picture(Figure):
    """A matplotlib figure that shows itself in a notebook as a small PNG with alternative text.

    Parameters
    ----------
    width, height : inches
    alt : str, what a reader who cannot see the picture needs to know; also the text output of the cell
    """

    def __init__(self, width, height, alt):
        super().__init__(figsize=(width, height), layout="constrained", facecolor="white")
        self.alt = alt

    def png(self):
        """The picture as PNG bytes, without dates or versions inside: the same data give the same bytes."""
        from PIL import Image

        buffer = io.BytesIO()
        with _no_tight_box():
            self.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
        buffer.seek(0)
        small = io.BytesIO()
        Image.open(buffer).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
        return small.getvalue()

    def _repr_mimebundle_(self, include=None, exclude=None):
        width, height = (round(inches * _CSS_PIXELS_PER_INCH) for inches in self.get_size_inches())
        data = {"image/png": base64.b64encode(self.png()).decode(), "text/plain": self.alt}
        return data, {"image/png": {"alt": self.alt, "width": width, "height": height}}


class _no_tight_box:
    """IPython's inline backend sets savefig.bbox="tight", which would change the size."""

    def __enter__(self):
        self.before = rcParams["savefig.bbox"]
        rcParams["savefig.bbox"] = None

    def __exit__(self, *error):
        rcParams["savefig.bbox"] = self.before


def name_axes(axes, x, y="", title=""):
    """What the axes show, with units, and a title above on the left."""
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)
    axes.set_title(title, fontsize=10, color=INK, loc="left")


def clean(axes, *, left=True, bottom=True):
    """Axes without a frame; `left` and `bottom` keep those two lines."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines["left"].set_visible(left)
    axes.spines["bottom"].set_visible(bottom)
    axes.tick_params(colors=INK, labelsize=8, length=3)
    if not left:
        axes.set_yticks([])
    if not bottom:
        axes.set_xticks([])
