"""SVG cards for README and docs/: text and simple shapes on a ground of their own, so light and dark pages look alike.

May import: the standard library.
"""

from html import escape

INK, FAINT, CARD, EDGE = "#e6edf3", "#9aa7b4", "#14202b", "#3d4f5f"
RED, GREEN, BLUE, ORANGE, BAND = "#ff9a8a", "#7ee2a8", "#6cb6ff", "#f0b35c", "#4a2c2a"
SANS = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"


def text(x, y, words, colour=INK, size=13, extra=""):
    """One line of text; `y` is its base line."""
    return (
        f'<text x="{x}" y="{y}" fill="{colour}" font-size="{size}" xml:space="preserve" {extra}>{escape(words)}</text>'
    )


def card(width, height, title, body, *, font=SANS):
    """A whole picture: `body` (a list of elements) on a card; `title` is what a screen reader says."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="{font}" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect x="1" y="1" width="{width - 2}" height="{height - 2}" rx="10" fill="{CARD}" stroke="{EDGE}"/>',
            *body,
            "</svg>",
            "",
        ]
    )
