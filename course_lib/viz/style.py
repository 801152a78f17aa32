"""The look of every figure: a colour-blind safe palette, a light and a dark look, small files, alternative text.

Palette: M. Okabe, K. Ito, "Color Universal Design", 2008, https://jfly.uni-koeln.de/color/. Colour never carries a
meaning alone: a hatch, an outline or a word repeats it.
"""

import base64
import io
import re
from contextlib import contextmanager
from html import escape
from operator import sub

from matplotlib import rc_context
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
LIGHT_BLUE, LIGHT_ORANGE, LIGHT_GREEN = "#DCEBF5", "#FBEBC8", "#CFE8DF"
INK, GREY, PALE = "#222222", "#777777", "#DDDDDD"
HATCHES = ("", "///", "xx", "..", "\\\\\\")
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY)
DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v")
_DPI = 170  # sharp on a high-density screen; displayed at 100 CSS pixels an inch
_CSS_PIXELS_PER_INCH = 100
_NUM_COLOURS = 128  # enough for flat pictures, and the file shrinks to a third
_NAMED = (
    BLUE,
    ORANGE,
    GREEN,
    PURPLE,
    SKY,
    VERMILION,
    LIGHT_BLUE,
    LIGHT_ORANGE,
    LIGHT_GREEN,
    INK,
    GREY,
    PALE,
    "#FFFFFF",
)


# A dark theme inverts brightness and keeps hues; white becomes the dark grey of the page. Where a page drops the style,
# a picture is as it was drawn, on white.
_DARK = 'body[data-jp-theme-light="false"],html[data-theme="dark"],body.vscode-dark'
_STYLE = (
    "<style>img.course-picture{max-width:100%;height:auto}"
    f":is({_DARK}) img.course-picture"
    "{filter:invert(.93) hue-rotate(180deg)!important;background:none!important}</style>"
)


class Picture(Figure):
    """A matplotlib figure that displays itself in a notebook as a small picture with alternative text.

    Parameters
    ----------
    width, height : inches
    alt_text : str, what a reader who cannot see the picture needs to know; also the text output of the cell
    """

    def __init__(self, width, height, alt_text):
        super().__init__(figsize=(width, height), layout="constrained", facecolor="white")
        self.alt_text = alt_text

    @property
    def css_size(self):
        """(width, height) on a page, in CSS pixels."""
        return tuple(round(inches * _CSS_PIXELS_PER_INCH) for inches in self.get_size_inches())

    def png(self):
        """PNG bytes without dates or versions: the same data give the same bytes."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image

        with self._unchanged():
            self.dpi = _DPI
            canvas = FigureCanvasAgg(self)
            canvas.draw()
            image = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
        small = io.BytesIO()
        image = image.convert("RGB").quantize(_NUM_COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        image.putpalette(_exact(image.getpalette()))
        image.save(small, "PNG", optimize=True)
        return small.getvalue()

    def svg(self):
        """The picture as SVG text whose letters are shapes; the same data give the same text."""
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        with self._unchanged(), rc_context({"svg.hashsalt": "course", "svg.fonttype": "path"}):
            FigureCanvasSVG(self).print_svg(buffer, metadata=nothing)
        text = buffer.getvalue()
        text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
        text = re.sub(r"(?<!scale\()\b(\d+\.\d\d)\d+", r"\1", text)  # hundredths of a point
        return re.sub(r'<g id="[^"]*">', "<g>", text)  # a number in each name, which no part of the file refers to

    @contextmanager
    def _unchanged(self):
        """Keep resolution and canvas, for a draw in place of `savefig`, which draws twice and which IPython sets up."""
        dpi, canvas = self.dpi, self.canvas
        try:
            yield
        finally:
            self.dpi = dpi
            self.set_canvas(canvas)

    def html(self, part="picture"):
        """An <img> with alternative text; `part` is its name for a script."""
        width, height = self.css_size
        return (
            f'{_STYLE}<img class="course-picture" data-part="{part}" alt="{escape(self.alt_text)}" width="{width}" '
            f'height="{height}" src="data:image/png;base64,{base64.b64encode(self.png()).decode()}">'
        )

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": self.html(), "text/plain": self.alt_text}


def _exact(palette):
    """`palette` [r, g, b, r, …] with the named colours as they are, which quantising changes by 1 or 2."""
    named = [tuple(bytes.fromhex(colour[1:])) for colour in _NAMED]
    entries = zip(*[iter(palette)] * 3, strict=True)
    near = (next((name for name in named if max(map(abs, map(sub, entry, name))) <= 2), entry) for entry in entries)
    return [channel for entry in near for channel in entry]
