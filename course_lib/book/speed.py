"""README's tables of speed: the course's kernels beside the library's, on each device that has stored rows.

May import: measure, overview.
"""

from dataclasses import dataclass, field
from pathlib import Path

from ..measure import read_results
from .overview import markdown_table


@dataclass(frozen=True)
class Shown:
    """One table of one results file: a line a variant, a column a size.

    Attributes
    ----------
    family : str, the file's stem
    size : str or tuple of str, the column (or columns together) whose values make the table's columns
    cell : function of a row that gives the text of its cell
    caption : str, what is shown, with its unit
    where : dict, the rows that count
    groups : dict, column -> {value: words}; the table has a block of lines for each combination
    variants : tuple of (variant, language), in order; empty shows all that the file has
    head : function of a size's values that gives the text above its column, or None: the values, one after another
    """

    family: str
    size: str
    cell: object
    caption: str
    where: dict = field(default_factory=dict)
    groups: dict = field(default_factory=dict)
    variants: tuple = ()
    head: object = None


def _beside(value, ratio, form="{:.2f}"):
    """The value, and in brackets how it compares; a row without the value gives an empty cell."""

    def cell(row):
        if row.get(value) is None:
            return ""
        return f"{row[value]:,.0f}" + (f" ({form.format(row[ratio])})" if row.get(ratio) is not None else "")

    return cell


_HEADS = {"head_dim": {64: "d = 64", 128: "d = 128"}, "causal": {0: "full", 1: "causal"}}
_LADDER = tuple(
    (f"flash_attention_2/{stem}", "cuda") for stem in ("02_mma", "03_swizzled", "04_pipelined", "10_heavy_first")
)
_FORWARD = (
    ("sdpa_flash", "torch"), ("sdpa_cudnn", "torch"), *_LADDER,
    ("flash_attention_2/01_loop_order", "triton"), ("flash_attention_2/10_heavy_first", "triton"),
)  # fmt: skip
_RATIO = _beside("tflops", "ratio_to_sdpa_flash")
_OF_CUBLAS = _beside("tflops", "percent_of_cublas", "{:.0f} %")
TABLES = (
    Shown(
        "softmax", "num_cols", lambda row: row["gbps"],
        "GB/s of the fewest bytes, one read and one write of every number, by row length",
    ),
    Shown(
        "matmul", "size_m", _OF_CUBLAS, "TFLOP/s of a square product of halves, by size (share of cuBLAS)",
        {"dtype": "float16"},
    ),
    Shown(
        "matmul", "size_m", _OF_CUBLAS, "TFLOP/s of a square product in float32, by size (share of cuBLAS)",
        {"dtype": "float32"},
    ),
    Shown(
        "flash_attention", "seq_len", _RATIO,
        "TFLOP/s of attention forward in bfloat16, by length (times SDPA's flash backend)",
        {"direction": "forward", "dtype": "bfloat16"}, _HEADS, _FORWARD,
    ),
    Shown(
        "flash_attention", "seq_len", _RATIO,
        "TFLOP/s of attention backward in bfloat16, by length (times SDPA's flash backend)",
        {"direction": "backward", "dtype": "bfloat16"}, _HEADS,
    ),
    *(
        Shown(
            "decode", ("batch_size", "num_heads", "num_kv_heads", "seq_len"),
            _beside("median_us", "percent_of_ceiling", "{:.0f} %"),
            f"microseconds of decoding over pages of {page_size} tokens in random order, head_dim 128, by sequences x "
            "tokens of each and query heads / key-value heads (share of the speed of reading alone)",
            {"page_size": page_size}, {"dtype": {}},
            head=lambda batch, heads, kv_heads, length: f"{batch} x {length:,}, {heads} / {kv_heads}",
        )
        for page_size in (16, 64)
    ),
)  # fmt: skip


def speed_table(root):
    """Every table that has rows, under one heading; empty without rows."""
    parts = []
    folder = Path(root) / "benchmarks" / "results"
    for shown in TABLES:
        for path in sorted(folder.glob(f"*/{shown.family}.csv")):
            rows = read_results(path.parent.name, shown.family, root=folder).where(**shown.where).rows
            if rows:
                parts.append(f"On {device_words(path)}: {shown.caption}.\n\n{_table(shown, rows)}")
    return "### How fast?\n\n" + "\n\n".join(parts) if parts else ""


def _table(shown, rows):
    """Markdown of one table."""
    sizes = sorted({_size(shown, row) for row in rows})
    keys = list(dict.fromkeys(_key(shown, row) for row in rows))
    if shown.groups:
        keys.sort(key=lambda key: key[0])
    if shown.variants:
        order = {name: place for place, name in enumerate(shown.variants)}
        keys = sorted((key for key in keys if key[1:] in order), key=lambda key: (key[0], order[key[1:]]))
    found = {(*_key(shown, row), _size(shown, row)): shown.cell(row) for row in rows}
    words = shown.head or (lambda *size: ", ".join(f"{part:,}" for part in size))
    head = (shown.family, *(words(*size) for size in sizes))
    lines = [(_line(shown, key), *(found.get((*key, size), "") for size in sizes)) for key in keys]
    return markdown_table(head, lines)


def _size(shown, row):
    """The values of the size columns."""
    columns = (shown.size,) if isinstance(shown.size, str) else shown.size
    return tuple(row[column] for column in columns)


def _key(shown, row):
    """(values of the groups, variant, language): what tells the lines of a table apart."""
    return tuple(row[column] for column in shown.groups), row["variant"], row["language"]


def _line(shown, key):
    """The first cell of a line."""
    values, variant, language = key
    words = [names.get(value, str(value)) for names, value in zip(shown.groups.values(), values, strict=True)]
    name = variant.rpartition("/")[2] if shown.groups else variant
    return ", ".join([*words, f"{name} ({language})"])


def device_words(path):
    """The machine of a results folder, in words."""
    name = path.parent.name
    return "a CPU" if name == "cpu" else f"an NVIDIA {name.upper()}"
