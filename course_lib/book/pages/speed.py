"""The tables of docs/results.md: the course's kernels beside the libraries', on each device that has stored rows.

May import: measure, overview.
"""

from dataclasses import dataclass, field
from pathlib import Path

from ...measure import read_results
from .overview import markdown_table


@dataclass(frozen=True)
class Shown:
    """One table of one results file: a line a variant, a column a size.

    Attributes
    ----------
    title : str, the heading above it; tables with the same title follow one another under one heading
    family : str, the file's stem
    size : tuple of str, the columns whose values together make the table's columns
    cell : function of a row that gives the text of its cell
    caption : str, what is shown, with its unit
    where : dict, the rows that count
    prefix : str or None, a column whose value comes before the variant's name
    head : function of a size's values that gives the text above its column
    """

    title: str
    family: str
    size: tuple
    cell: object
    caption: str
    where: dict = field(default_factory=dict)
    prefix: str | None = None
    head: object = "{:,}".format


def _beside(value, ratio, form="{:.2f}"):
    """The value, and in brackets how it compares; a row without the value gives an empty cell."""

    def cell(row):
        if row.get(value) is None:
            return ""
        shown = f"{row[value]:,.0f}" if row[value] >= 10 else f"{row[value]:.2g}"
        return shown + (f" ({form.format(row[ratio])})" if row.get(ratio) is not None else "")

    return cell


def _matmul(dtype, words):
    caption = f"TFLOP/s of a square product {words}, by size (share of cuBLAS)"
    cell = _beside("tflops", "percent_of_cublas", "{:.0f} %")
    return Shown("Matrix product", "matmul", ("size_m",), cell, caption, {"dtype": dtype})


def _attention(direction, head_dim, causal):
    words = "causal" if causal else "without a mask"
    caption = (
        f"TFLOP/s of attention {direction} in bfloat16, head_dim {head_dim}, {words}, by length (times PyTorch's flash "
        "backend)"
    )
    where = {"direction": direction, "dtype": "bfloat16", "head_dim": head_dim, "causal": causal}
    cell = _beside("tflops", "ratio_to_sdpa_flash")
    return Shown(f"Attention {direction}", "flash_attention", ("seq_len",), cell, caption, where)


def _hopper_attention(head_dim, causal):
    words = "causal" if causal else "without a mask"
    caption = (
        f"TFLOP/s of attention forward with Hopper's instructions in bfloat16, head_dim {head_dim}, {words}, by length "
        "(times PyTorch's cuDNN backend)"
    )
    where = {"dtype": "bfloat16", "head_dim": head_dim, "causal": causal}
    cell = _beside("tflops", "ratio_to_sdpa_cudnn")
    return Shown("Attention forward on Hopper", "flash_attention_3", ("seq_len",), cell, caption, where)


def _decode(page_size):
    caption = (
        f"Microseconds of decoding over pages of {page_size} tokens in random order, head_dim 128, by sequences x "
        "tokens of each and query heads / key-value heads (share of the speed of reading alone)"
    )
    return Shown(
        "Decoding over pages",
        "decode",
        ("batch_size", "num_heads", "num_kv_heads", "seq_len"),
        _beside("median_us", "percent_of_ceiling", "{:.0f} %"),
        caption,
        {"page_size": page_size},
        prefix="dtype",
        head=lambda batch, heads, kv_heads, length: f"{batch} x {length:,}, {heads} / {kv_heads}",
    )


def _model():
    caption = (
        "Tokens a second of greedy generation, 256 new tokens, random weights, by model and prompts x tokens of each "
        "(times the best of transformers' four ways; 01 and 02 keep nothing and make 4 tokens)"
    )
    size = ("model", "batch_size", "prompt_len")
    cell = _beside("tokens_per_s", "ratio_to_best_peer")
    head = "{}, {} x {:,}".format
    return Shown("A language model", "model", size, cell, caption, head=head)


def _serving():
    caption = (
        "Tokens a second of a serving engine, prompts and outputs uniform in 100 to 1,024 tokens, the shape of "
        "Qwen3-0.6B with random weights, by requests that come at once (share of the card's roof)"
    )
    cell = _beside("tokens_per_s", "roof_percent", "{:.0f} %")
    where = {"scenario": "offline", "model": "qwen3-0.6b-shape", "note": None}
    return Shown("Serving", "serving", ("num_requests",), cell, caption, where)


def _ranks():
    caption = (
        "TFLOP/s of each GPU in causal attention over several, 32 query heads and 8 key heads of 128 in bfloat16, by "
        "GPUs and tokens (times one GPU)"
    )
    size, head = ("ranks", "seq_len"), "{} GPUs, {:,}".format
    return Shown("Several GPUs", "scaling", size, _beside("tflops", "speedup"), caption, {"part": "context"}, head=head)


def _ranks_decode():
    caption = (
        "Tokens a second of decode of an 8B-shaped Llama by tensor parallelism, bfloat16, 2,048 tokens before, as a "
        "CUDA graph, by GPUs and requests (times one GPU)"
    )
    where = {"part": "model", "op": "decode"}
    size, head = ("ranks", "batch_size"), "{} GPUs, {}".format
    return Shown("Several GPUs", "scaling", size, _beside("tokens_per_s", "speedup"), caption, where, head=head)


LIBRARY_NAMES = {"sdpa_flash": "PyTorch SDPA, flash backend", "sdpa_cudnn": "PyTorch SDPA, cuDNN backend"}
TABLES = (
    Shown(
        "Softmax",
        "softmax",
        ("num_cols",),
        lambda row: row["gbps"],
        "GB/s of the fewest bytes, one read and one write of every number, by row length",
    ),
    _matmul("float16", "of halves"),
    _matmul("float32", "in float32"),
    *(
        _attention(direction, head_dim, causal)
        for direction in ("forward", "backward")
        for head_dim in (64, 128)
        for causal in (0, 1)
    ),
    *(_hopper_attention(head_dim, causal) for head_dim in (64, 128) for causal in (0, 1)),
    _decode(16),
    _decode(64),
    _model(),
    _serving(),
    _ranks(),
    _ranks_decode(),
)


def speed_table(root):
    """Every table that has rows, under its heading; empty without rows."""
    parts, title = [], None
    folder = Path(root) / "benchmarks" / "results"
    for shown in TABLES:
        for path in sorted(folder.glob(f"*/{shown.family}.csv")):
            device = path.parent.name
            rows = read_results(device, shown.family, root=folder).where(**shown.where).rows
            if rows:
                parts += [f"## {shown.title}"] * (shown.title != title)
                parts += [f"{shown.caption}, on {device_words(device)}:", _table(shown, rows)]
                title = shown.title
    return "\n\n".join(parts)


def _table(shown, rows):
    """Markdown of one table; its lines are in the order of the file."""
    sizes = sorted({_size(shown, row) for row in rows})
    cells = {(_line(shown, row), _size(shown, row)): shown.cell(row) for row in rows}
    lines = dict.fromkeys(line for line, _ in cells)
    head = ("", *(shown.head(*size) for size in sizes))
    return markdown_table(head, [(line, *(cells.get((line, size), "") for size in sizes)) for line in lines])


def _size(shown, row):
    """The values of the size columns."""
    return tuple(row[column] for column in shown.size)


def _line(shown, row):
    """The first cell of a row's line."""
    name = row["variant"].rpartition("/")[2] + (f" ({row['language']})" if row.get("language") else "")
    return f"{row[shown.prefix]}, {name}" if shown.prefix else name


def device_words(device):
    """The machine of a folder of benchmarks/results, in words."""
    return "a CPU" if device == "cpu" else f"an NVIDIA {device.upper()}"


def rungs(root, family):
    """The stems of a family's kernel files, in order."""
    return sorted(path.stem for path in (Path(root) / "kernels_cu" / family).glob("[0-9][0-9]_*.cu"))
