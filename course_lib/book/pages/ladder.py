"""docs/ladder.svg: every rung of FlashAttention-2 beside PyTorch's flash and cuDNN backends, from the stored rows.

The rungs are the kernel files of kernels_cu/flash_attention_2 that have a stored row, in the order of their names.

May import: measure, speed, svg.
"""

from pathlib import Path

from ...measure import read_results
from .speed import LIBRARY_NAMES, device_words, rungs
from .svg import BLUE, CARD, EDGE, FAINT, GREEN, INK, ORANGE, card, text

DEVICE, FAMILY = "h200", "flash_attention_2"
CASE = {"direction": "forward", "head_dim": 128, "seq_len": 16384, "causal": 1, "dtype": "bfloat16"}
HALO = f'stroke="{CARD}" stroke-width="5" paint-order="stroke"'  # keeps the line of the flash backend off the numbers
WIDTH, NAMES, ROW, BAR, TOP = 860, 250, 34, 20, 84  # px


def bars(root):
    """[(name, TFLOP/s, times the flash backend, colour)] from the first rung up, then the libraries."""
    rows = read_results(DEVICE, "flash_attention", root=Path(root) / "benchmarks" / "results").where(**CASE).rows
    stored = {(row["variant"], row["language"]): row for row in rows if row["tflops"] is not None}
    stems = rungs(root, FAMILY)
    chosen = [(f"{stem}, CUDA", (f"{FAMILY}/{stem}", "cuda"), BLUE) for stem in stems]
    twins = [(f"{stem}, Triton", (f"{FAMILY}/{stem}", "triton"), GREEN) for stem in stems]
    chosen += [twin for twin in twins if twin[1] in stored][-1:]
    chosen += [(words, (name, "torch"), ORANGE) for name, words in LIBRARY_NAMES.items()]
    return [
        (name, stored[key]["tflops"], stored[key]["ratio_to_sdpa_flash"], colour)
        for name, key, colour in chosen
        if key in stored
    ]


def picture(root):
    """The SVG as text."""
    shown = bars(root)
    scale = (WIDTH - NAMES - 130) / max(tflops for _, tflops, _, _ in shown)
    flash = next((tflops for name, tflops, _, _ in shown if name == LIBRARY_NAMES["sdpa_flash"]), None)
    height = TOP + ROW * len(shown) + 6
    body = [
        text(24, 36, "FlashAttention-2, forward, one idea a rung", INK, 17, 'font-weight="600"'),
        text(
            24, 59, f"TFLOP/s on {device_words(DEVICE)}: bfloat16, causal, head_dim {CASE['head_dim']}, "
            f"{CASE['seq_len']:,} tokens; in brackets times PyTorch's flash backend", FAINT,
        ),
    ]  # fmt: skip
    if flash:
        x = NAMES + flash * scale
        body.append(
            f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 14}" stroke="{EDGE}" stroke-width="2"/>'
        )
    for number, (name, tflops, ratio, colour) in enumerate(shown):
        y = TOP + ROW * number
        width = tflops * scale
        body += [
            text(NAMES - 12, y + 15, name, INK, 14, 'text-anchor="end"'),
            f'<rect x="{NAMES}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3" fill="{colour}"/>',
            text(round(NAMES + width + 8, 1), y + 15, f"{tflops:.0f} ({ratio:.2f})", INK, 14, HALO),
        ]
    return card(WIDTH, height, alt(root), body)


def alt(root):
    """The picture in words."""
    said = ", ".join(f"{name} {tflops:.0f}" for name, tflops, _, _ in bars(root))
    return f"TFLOP/s of FlashAttention-2 forward on {device_words(DEVICE)}: {said}."
