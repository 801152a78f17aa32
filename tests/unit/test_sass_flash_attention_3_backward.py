"""The backward pass of FlashAttention-3 in machine code: it uses the units it names, and its wgmmas overlap."""

import functools

import pytest

pytest.importorskip("cuda.bindings.nvrtc")

from course_lib.cuda import sass, sass_facts, steps  # noqa: E402
from course_lib.cuda.source import KERNELS_ROOT, with_headers_digest  # noqa: E402
from course_lib.ops.flash_attention_3 import STEM_BACKWARD  # noqa: E402

TEXT = (KERNELS_ROOT / f"{STEM_BACKWARD}.cu").read_text(encoding="utf-8")
UNITS = {"HGMMA", "WARPGROUP.ARRIVE", "UTMALDG", "SYNCS", "USETMAXREG", "UTMASTG"}


@functools.cache
def compiled(head_dim, element):
    """The kernel's machine code for Hopper, compiled once for all tests."""
    defines = {"HEAD_DIM": head_dim, "ELEMENT": element}
    return sass.as_compiled(TEXT, "gradients_kernel", arch="sm_90a", defines=defines)


@pytest.mark.parametrize("defines", steps.variants(TEXT), ids=lambda defines: " ".join(map(str, defines.values())))
def test_the_walk_uses_the_units_that_it_names(defines, compiled_before):
    if compiled_before(with_headers_digest(TEXT), defines):
        return
    assert defines.keys() == {"HEAD_DIM", "ELEMENT"}
    found = sass_facts.facts(compiled(int(defines["HEAD_DIM"]), defines["ELEMENT"]))
    assert {unit for unit, count in found.counts.items() if count} == UNITS
    assert not found.is_serialised and 4 * found.counts["WARPGROUP.ARRIVE"] <= found.counts["HGMMA"]
    assert found.spill_bytes == 0 and found.registers <= 255


@pytest.mark.parametrize("head_dim", [64, 128])
def test_five_products_a_tile(head_dim, compiled_before):
    """A wgmma multiplies 16 of the k side: D for S and dP, the queries for dV and dK, the keys for dQ. At 128 one more
    S comes before the loop, at 64 the scores are issued in it alone."""
    if compiled_before(with_headers_digest(TEXT)):
        return
    found = sass_facts.facts(compiled(head_dim, "__half"))
    queries, keys = (128 if head_dim == 64 else 64), 128
    scores = head_dim // 16
    wanted = 2 * scores + 2 * queries // 16 + keys // 16 + (scores if head_dim == 128 else 0)
    assert found.counts["HGMMA"] == wanted


def test_the_exponentials_of_head_dim_64_run_under_a_product(compiled_before):
    """ptxas moves exponentials down past a wait, where nothing is in flight and more registers are live, unless a loop
    (here: the wait for the next Q) keeps them above it."""
    if compiled_before(with_headers_digest(TEXT)):
        return
    code = compiled(64, "__half").machine_instructions()
    names = [next((n for n in ("HGMMA", "MUFU.EX2", "WARPGROUP.DEPBAR") if n in line), "") for line in code]
    first, last = names.index("MUFU.EX2"), len(names) - 1 - names[::-1].index("MUFU.EX2")
    assert names.count("MUFU.EX2") == 64 and "WARPGROUP.DEPBAR" not in names[first:last]
