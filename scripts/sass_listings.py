"""Writes the listings of exercise 08.7: machine code of three builds of FlashAttention-3, cut to some opcodes.

    python scripts/sass_listings.py

Needs NVRTC and nvdisasm, no GPU. The instructions are those of nvdisasm without addresses, numbered from 1; what the
pattern of a listing does not name is left out, but for loops over products or loads: label and branch stay. `a` is a
rung as it is; `b` and `c` are edited.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.cuda import sass  # noqa: E402

FOLDER = ROOT / "solutions" / "08_7_read_sass"
DEFINES = {"HEAD_DIM": 64, "ELEMENT": "__half", "BLOCK_N": 32}
UNITS = "HGMMA|WARPGROUP|USETMAXREG|UTMALDG|SYNCS"
# listing -> (rung, (text, what replaces it), pattern)
LISTINGS = {
    "a": ("04_overlap", ("", ""), f"{UNITS}|R2UR|MUFU.EX2"),
    "b": ("04_overlap", ("wgmma_wait_group<0>();  // before it", "// before it"), UNITS),
    "c": (
        "03_producer_consumer",
        ("__shfl_sync(ALL_LANES, threadIdx.x / 128, 0)", "threadIdx.x / 128"),
        f"{UNITS}|R2UR",
    ),
}


def listing(rung, edit, pattern):
    """The text of one listing: a line of its making, then labels and `number: instruction`."""
    source = (ROOT / "kernels_cu" / "flash_attention_3" / f"{rung}.cu").read_text(encoding="utf-8")
    find, replace = edit
    if find and source.count(find) != 1:
        raise SystemExit(f"{rung}: {find!r} is {source.count(find)} times in the file; expected once.")
    compiled = sass.as_compiled(source.replace(find, replace) if find else source, None, arch="sm_90a", defines=DEFINES)
    code = compiled.machine_instructions()
    loops = loops_of(compiled.listing, compiled.name, code)
    lines = [f"# sm_90a, half; cut to {pattern} and their loops"]
    for number, instruction in enumerate(code, 1):
        lines += [f"{label}:" for label, (first, _) in loops.items() if first == number]
        if re.search(pattern, instruction) or any(last == number for _, last in loops.values()):
            lines.append(f"{number:4}: {instruction}")
    return "\n".join(lines) + "\n"


def loops_of(text, name, code):
    """{label: (first instruction, branch back)} of the loops that hold a product or a load of a box."""
    body, labels, number = text[text.index(f".text.{name}:") :], {}, 0
    for line in body.splitlines():
        label = re.match(r"(\.L_x_\d+):", line.strip())
        if label:
            labels.setdefault(label[1], number + 1)
        number += re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+\S", line) is not None
    loops = {}
    for number, instruction in enumerate(code, 1):
        branch = re.search(r"BRA `\((\.L_x_\d+)\)", instruction)
        first = labels.get(branch[1], number) if branch else number
        if any(re.search("HGMMA|UTMALDG", one) for one in code[first - 1 : number - 1]):
            loops[branch[1]] = (first, number)
    return loops


if __name__ == "__main__":
    for name, parts in LISTINGS.items():
        (FOLDER / f"{name}.sass").write_text(listing(*parts), encoding="utf-8")
