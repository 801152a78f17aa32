"""Draw docs/front.svg, the picture of README.md: a kernel without its barrier, and what the SIMT machine says of it.

python scripts/front_picture.py        runs the kernel on the machine, with and without the barrier, and writes the file

Every word of the right side is the machine's own. The card brings its own background, so that it reads the same on a
light and on a dark page.
"""

import textwrap
from html import escape
from pathlib import Path

import torch

from course_lib import cuda
from course_lib.cuda.source import KERNELS_ROOT

TARGET = Path(__file__).resolve().parents[1] / "docs" / "front.svg"
KERNEL, BLOCK, ROWS, COLS = "reduction/01_shared_tree.cu", 128, 2, 512
WIDTH, LINE, SIZE, MIDDLE = 1070, 23, 13, 604  # px
INK, FAINT, CARD, EDGE, RED, GREEN, BAND = "#e6edf3", "#9aa7b4", "#14202b", "#3d4f5f", "#ff9a8a", "#7ee2a8", "#4a2c2a"


def kernel_texts():
    """The kernel, the same without its barrier, and the number of the line that went."""
    text = (KERNELS_ROOT / KERNEL).read_text(encoding="utf-8")
    lines = text.splitlines()
    (gone,) = [i for i, line in enumerate(lines) if "__syncthreads();" in line]
    return text, "\n".join([*lines[:gone], "", *lines[gone + 1 :]]), gone + 1


def reports():
    """What the machine says of the kernel with and without its barrier."""
    right, wrong, _ = kernel_texts()
    found = []
    for text in (right, wrong):
        x, out = torch.ones(ROWS, COLS), torch.zeros(ROWS)
        found.append(cuda.compile(text, defines={"BLOCK": BLOCK}).profile(ROWS, BLOCK, x, out, ROWS, COLS))
    return found


def shown_lines():
    """(number, code, is it the deleted one) of the tree in shared memory and of the store that follows."""
    right, _, gone = kernel_texts()
    lines = right.splitlines()
    first = next(i for i, line in enumerate(lines) if "// region: tree" in line) + 1
    kept = [i for i in range(first, len(lines) - 1) if lines[i].strip() and "region" not in lines[i]]
    return [(i + 1, lines[i].split("  //")[0], i + 1 == gone) for i in kept]


def text(x, y, words, colour=INK, size=SIZE, extra=""):
    return (
        f'<text x="{x}" y="{y}" fill="{colour}" font-size="{size}" xml:space="preserve" {extra}>{escape(words)}</text>'
    )


def code(named):
    """The left side: the lines, those that a finding names on a band."""
    parts, y = [text(28, 42, f"kernels_cu/{KERNEL}, its barrier deleted", FAINT)], 76
    for number, line, gone in shown_lines():
        if number in named:
            parts.append(f'<rect x="14" y="{y - 16}" width="{MIDDLE - 28}" height="{LINE}" rx="4" fill="{BAND}"/>')
            parts.append(text(18, y, "▸", RED))
        colour = FAINT if gone else RED if number in named else INK
        parts.append(
            text(34, y, f"{number:>2} {line[3:]}", colour, SIZE, 'text-decoration="line-through"' if gone else "")
        )
        y += LINE
    return parts, y


def said(report, title, colour):
    """Title and sentences of a report, as (words, colour) lines."""
    lines = [(title, colour)]
    for finding in report.findings:
        head, *rest = textwrap.wrap(f"{finding.kind.replace('_', ' ')}, {finding.message}", 48)
        lines += [(head, INK), *((f"  {line}", INK) for line in rest)]
    return lines


def picture():
    """The SVG as text."""
    right, wrong = reports()
    assert right.ok and not wrong.ok
    load = right.global_load
    named = {line for finding in wrong.findings for line in (finding.line, finding.other_line)}
    left, low = code(named)
    lines = [
        *said(wrong, f"✘ {len(wrong.findings)} findings on a laptop without a GPU", RED),
        ("", INK),
        ("✔ no findings with the barrier back", GREEN),
        (f"  {load.requests} loads of a warp, {load.sectors} sectors, {load.ideal_sectors} at best", INK),
    ]
    body = [text(MIDDLE + 16, 76 + i * LINE, words, colour) for i, (words, colour) in enumerate(lines)]
    height = max(low, 76 + len(lines) * LINE) + 4
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" role="img">',
            "<title>A reduction kernel without its barrier; the SIMT machine names the line of the race</title>",
            f'<rect x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="10" fill="{CARD}" stroke="{EDGE}"/>',
            f'<line x1="{MIDDLE}" y1="24" x2="{MIDDLE}" y2="{height - 24}" stroke="{EDGE}"/>',
            text(MIDDLE + 16, 42, "kernel.profile(grid, block, …)", FAINT),
            *left,
            *body,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(picture(), encoding="utf-8")
    print(f"wrote {TARGET.relative_to(TARGET.parents[1])}: {TARGET.stat().st_size:,} bytes")
