"""docs/ladder.svg: every rung of FlashAttention-2 and -3 beside PyTorch's flash and cuDNN backends, from stored rows.

The rungs are the kernel files of both families that have a stored row, in the order of their names. Each family has a
results file of its own, in which the flash backend was timed in the same turns: the ratio is to that.

May import: measure, speed, svg.
"""

from pathlib import Path

from ...measure import read_results, spoken
from .speed import LIBRARY_NAMES, device_words, rungs
from .svg import BLUE, CARD, EDGE, FAINT, GREEN, INK, ORANGE, card, text

DEVICE, PEER = "h200", "sdpa_flash"
FAMILIES = {"flash_attention_2": ("flash_attention", "FA2"),
            "flash_attention_3": ("flash_attention_3", "FA3")}  # fmt: skip
CASE = {"direction": "forward", "head_dim": 128, "seq_len": 16384, "causal": 1, "dtype": "bfloat16"}
HALO = f'stroke="{CARD}" stroke-width="5" paint-order="stroke"'  # keeps the line of the flash backend off the numbers
WIDTH, NAMES, ROW, BAR, TOP = 860, 250, 30, 18, 84  # px


def bars(root):
    """[(name, TFLOP/s, times the flash backend, colour)] from the first rung up, then the libraries."""
    shown, stored = [], {}
    for family, (results, words) in FAMILIES.items():
        rows = read_results(DEVICE, results, root=Path(root) / "benchmarks" / "results").where(**CASE).rows
        found = {(row["variant"], row["language"]): row["tflops"] for row in rows if row["tflops"] is not None}
        stored = found or stored
        flash = found.get((PEER, "torch"))
        stems = rungs(root, family)
        chosen = [(f"{words} {spoken(stem)}", (f"{family}/{stem}", "cuda"), BLUE) for stem in stems]
        twins = [(f"{words} {spoken(stem)}, Triton", (f"{family}/{stem}", "triton"), GREEN) for stem in stems]
        chosen += [twin for twin in twins if twin[1] in found][-1:]
        shown += [(name, found[key], found[key] / flash, colour) for name, key, colour in chosen if key in found]
    libraries = [(words, (name, "torch")) for name, words in LIBRARY_NAMES.items()]
    flash = stored.get((PEER, "torch"))
    return shown + [(words, stored[key], stored[key] / flash, ORANGE) for words, key in libraries if key in stored]


def picture(root):
    """The SVG as text."""
    shown = bars(root)
    scale = (WIDTH - NAMES - 130) / max(tflops for _, tflops, _, _ in shown)
    flash = next((tflops for name, tflops, _, _ in shown if name == LIBRARY_NAMES[PEER]), None)
    height = TOP + ROW * len(shown) + 6
    body = [
        text(24, 36, "FlashAttention-2 and -3, forward, one idea a rung", INK, 17, 'font-weight="600"'),
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
            text(NAMES - 12, y + 14, name, INK, 14, 'text-anchor="end"'),
            f'<rect x="{NAMES}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3" fill="{colour}"/>',
            text(round(NAMES + width + 8, 1), y + 14, f"{tflops:.0f} ({ratio:.2f})", INK, 14, HALO),
        ]
    return card(WIDTH, height, alt(root), body)


def alt(root):
    """The picture in words."""
    said = ", ".join(f"{name} {tflops:.0f}" for name, tflops, _, _ in bars(root))
    return f"TFLOP/s of FlashAttention-2 and -3 forward on {device_words(DEVICE)}: {said}."
