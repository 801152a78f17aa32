"""The ladder of FlashAttention-3 in machine code: each rung uses the units it names, and its wgmmas overlap."""

import pytest

pytest.importorskip("cuda.bindings.nvrtc")

from course_lib.cuda import sass, sass_facts, steps  # noqa: E402
from course_lib.cuda.source import KERNELS_ROOT, with_headers_digest  # noqa: E402

FAMILY = "flash_attention_3"
# the rung from which on an instruction is there
FIRST = {"HGMMA": "01", "WARPGROUP.ARRIVE": "01", "UTMALDG": "02", "SYNCS": "02", "USETMAXREG": "03", "UTMASTG": "06"}
SIXTEEN_BITS = [name for name in steps.names(FAMILY) if "fp8" not in name]


@pytest.mark.parametrize("name", SIXTEEN_BITS)
def test_a_rung_uses_the_units_that_it_names(name, compiled_before):
    path = KERNELS_ROOT / FAMILY / f"{name}.cu"
    text = path.read_text(encoding="utf-8")
    if compiled_before(with_headers_digest(text), steps.variants(text)[-1]):
        return
    found = sass_facts.facts(sass.as_compiled(text, None, arch="sm_90a", defines=steps.variants(text)[-1]))
    used = {unit for unit, count in found.counts.items() if count}
    assert used == {unit for unit, first in FIRST.items() if first <= name}
    assert not found.is_serialised and 4 * found.counts["WARPGROUP.ARRIVE"] <= found.counts["HGMMA"]
    assert found.spill_bytes == 0 and found.registers <= 255
