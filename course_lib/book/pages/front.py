"""docs/front.svg, the first picture of README.md: a kernel without its barrier, and what the SIMT machine reports.

Every word on the right side is the machine's own: the kernel runs on it with and without the barrier.

May import: cuda, torch, svg.
"""

import textwrap

from .svg import BAND, EDGE, FAINT, GREEN, INK, MONO, RED, card, text

KERNEL, BLOCK, ROWS, COLS = "reduction/01_shared_tree.cu", 128, 2, 512
TITLE = "A reduction kernel without its barrier; the SIMT machine names the line of the race"
WIDTH, LINE, MIDDLE, TOP = 1070, 23, 604, 76  # px


def kernel_texts():
    """The kernel, the same without its barrier, and the number of the deleted line."""
    from ...cuda.source import KERNELS_ROOT

    source = (KERNELS_ROOT / KERNEL).read_text(encoding="utf-8")
    lines = source.splitlines()
    (gone,) = [i for i, line in enumerate(lines) if "__syncthreads();" in line]
    return source, "\n".join([*lines[:gone], "", *lines[gone + 1 :]]), gone + 1


def reports():
    """The machine's reports on the kernel with and without its barrier."""
    import torch

    from ... import cuda

    right, wrong, _ = kernel_texts()
    reports = []
    for source in (right, wrong):
        x, out = torch.ones(ROWS, COLS), torch.zeros(ROWS)
        kernel = cuda.compile(source, defines={"BLOCK": BLOCK})
        reports.append(kernel.profile(ROWS, BLOCK, x, out, ROWS, COLS))
    return reports


def shown_lines():
    """(number, code, is it the deleted one) of the tree in shared memory and of the store after it."""
    right, _, gone = kernel_texts()
    lines = right.splitlines()
    first = next(i for i, line in enumerate(lines) if "// region: tree" in line) + 1
    kept = [i for i in range(first, len(lines) - 1) if lines[i].strip() and "region" not in lines[i]]
    return [(i + 1, lines[i].split("  //")[0], i + 1 == gone) for i in kept]


def code(named):
    """(elements of the left side, its height); the lines in `named` are marked."""
    parts, y = [text(28, 42, f"kernels_cu/{KERNEL}, its barrier deleted", FAINT)], TOP
    for number, line, gone in shown_lines():
        if number in named:
            parts.append(f'<rect x="14" y="{y - 16}" width="{MIDDLE - 28}" height="{LINE}" rx="4" fill="{BAND}"/>')
            parts.append(text(18, y, "▸", RED))
        colour = FAINT if gone else RED if number in named else INK
        struck = 'text-decoration="line-through"' if gone else ""
        parts.append(text(34, y, f"{number:>2} {line[3:]}", colour, extra=struck))
        y += LINE
    return parts, y


def sentences(report, title, colour):
    """Title and findings of a report, as (words, colour) lines."""
    lines = [(title, colour)]
    for finding in report.findings:
        head, *rest = textwrap.wrap(f"{finding.kind.replace('_', ' ')}, {finding.message}", 48)
        lines += [(head, INK), *((f"  {line}", INK) for line in rest)]
    return lines


def picture(root=None):
    """The SVG as text."""
    right, wrong = reports()
    assert right.ok and not wrong.ok
    load = right.global_load
    named = {line for finding in wrong.findings for line in (finding.line, finding.other_line)}
    left, low = code(named)
    lines = [
        *sentences(wrong, f"✘ {len(wrong.findings)} findings on a laptop without a GPU", RED),
        ("", INK),
        ("✔ no findings with the barrier back", GREEN),
        (f"  {load.requests} loads of a warp, {load.sectors} sectors, {load.ideal_sectors} at best", INK),
    ]
    body = [text(MIDDLE + 16, TOP + i * LINE, words, colour) for i, (words, colour) in enumerate(lines)]
    height = max(low, TOP + len(lines) * LINE) + 4
    separator = f'<line x1="{MIDDLE}" y1="24" x2="{MIDDLE}" y2="{height - 24}" stroke="{EDGE}"/>'
    caption = text(MIDDLE + 16, 42, "kernel.profile(grid, block, …)", FAINT)
    return card(WIDTH, height, TITLE, [separator, caption, *left, *body], font=MONO)
