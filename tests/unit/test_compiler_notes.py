"""ptxas's notes on wgmma and setmaxnreg reach gate and learner, each provoked by a kernel; counts of instructions."""

import dataclasses
import re

import pytest

pytest.importorskip("cuda.bindings.nvrtc")

from course_lib import cuda, device  # noqa: E402
from course_lib.cuda import gate, notes, nvrtc, sass, sass_facts  # noqa: E402
from course_lib.errors import CompileError  # noqa: E402

# One product a step, its accumulators in flight between FENCE and the wait
KERNEL = """// Needs     compute capability 9.0a
#include "common/tma.cuh"
#include "common/wgmma.cuh"
extern "C" __global__ void __launch_bounds__(128, 1)
product_kernel(const __nv_bfloat16* x, float* out, int num_steps) {
    __shared__ alignas(1024) __nv_bfloat16 tile_smem[64 * 64];
    for (int i = threadIdx.x; i < 64 * 64; i += 128) tile_smem[i] = x[i];
    fence_proxy_async();
    __syncthreads();
    const unsigned long long tile = wgmma_descriptor(tile_smem, 0, 1024);
    float acc[32] = {};
    unsigned a[4] = {threadIdx.x, 1, 2, 3};
    for (int step = 0; step < num_steps; ++step) {
        FENCE
        PRODUCT
        wgmma_commit_group();
        IN_FLIGHT
        WAIT
        AFTER
    }
    for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = acc[i] + a[i % 4];
}
"""
PARTS = {
    "FENCE": "wgmma_fence();",
    "PRODUCT": "wgmma_m64k16_f32_bf16_ss(acc, tile, tile, 1); wgmma_m64k16_f32_bf16_ss(acc, tile + 2, tile + 2, 1);",
    "IN_FLIGHT": "",
    "WAIT": "wgmma_wait_group<0>();",
    "AFTER": "",
}
FROM_REGISTERS = "wgmma_m64k16_f32_bf16_rs(acc, a, tile, 1);"
RESCALE = "for (int i = 0; i < 32; ++i) acc[i] *= 0.5f;"
PACK = "for (int i = 0; i < 4; ++i) a[i] += step;"
WRONG = {
    "C7510": {"IN_FLIGHT": 'printf("%d", step);'},
    "C7513": {"PRODUCT": FROM_REGISTERS, "IN_FLIGHT": PACK},
    "C7514": {"IN_FLIGHT": RESCALE},
    "C7517": {"IN_FLIGHT": RESCALE},
    "C7515": {"WAIT": ""},
    "C7519": {"FENCE": ""},
}
RIGHT = [{}, {"AFTER": RESCALE}, {"PRODUCT": FROM_REGISTERS, "AFTER": PACK}]
LARGE = """#include "common/wgmma.cuh"
extern "C" __global__ void __launch_bounds__(256, 1) large_kernel(float* out, unsigned long long tile, int num_steps) {
    float scores[128] = {}, acc[128] = {};
    for (int step = 0; step < num_steps; ++step) {
        wgmma_fence();
        wgmma_m64k16_f32_bf16_ss(scores, tile, tile, 1);
        wgmma_m64k16_f32_bf16_ss(acc, tile, tile, 1);
        wgmma_commit_group();
        wgmma_wait_group<0>();
    }
    for (int i = 0; i < 128; ++i) out[threadIdx.x * 128 + i] = scores[i] + acc[i];
}
"""
SHARES = """#include "common/setmaxnreg.cuh"
extern "C" __global__ void BOUNDS shares_kernel(float* out) {
    if (threadIdx.x < 128) setmaxnreg_dec<40>();
    else setmaxnreg_inc<232>();
    out[threadIdx.x] = 1.0f;
}
"""


def kernel(parts):
    """The kernel with some of its parts replaced."""
    text = KERNEL
    for name, part in (PARTS | parts).items():
        text = text.replace(name, part, 1)
    return text


def codes(text):
    return notes.codes(nvrtc.compile_cubin(text, arch="sm_90a").notes)


@pytest.mark.parametrize("code", list(WRONG))
def test_a_mistake_that_ptxas_repairs_is_noted(code):
    assert code in codes(kernel(WRONG[code]))


@pytest.mark.parametrize("parts", RIGHT)
def test_the_right_order_has_no_note(parts):
    assert nvrtc.compile_cubin(kernel(parts), arch="sm_90a").notes == ""


def test_too_few_registers():
    cubin = nvrtc.compile_cubin(LARGE, arch="sm_90a")
    assert notes.codes(cubin.notes) == ["C7511"] and cubin.resources["large_kernel"].spill_bytes > 0


def test_setmaxnreg_needs_the_threads_and_the_blocks():
    for bounds in ("", "__launch_bounds__(256)"):
        assert codes(SHARES.replace("BOUNDS", bounds)) == ["C7508"]
    assert codes(SHARES.replace("BOUNDS", "__launch_bounds__(256, 1)")) == []


def test_every_code_that_we_know_says_what_to_do():
    for code in (*WRONG, "C7508", "C7511", "C7512"):
        assert re.match(rf"{code}: [^.]+(wgmma\.fence[^.]+)?\. [A-Z].*\.$", notes.meaning(code))
    assert notes.meaning("C7599").startswith("C7599: ptxas could not compile wgmma")


def test_the_explanation_follows_the_note():
    raw = nvrtc.compile_cubin(kernel(WRONG["C7519"]), arch="sm_90a").notes
    assert "C7519" in raw and "call wgmma_fence()" not in raw
    assert notes.explained(raw) == f"{raw}\n{notes.meaning('C7519')}"
    assert notes.explained("") == ""


def test_the_gate_refuses_what_ptxas_repaired(tmp_path):
    path = tmp_path / "product.cu"
    path.write_text(kernel(WRONG["C7514"]))
    problems = gate.problems(path, gate.check_file(path))
    assert [re.search("C75..", problem)[0] for problem in problems] == ["C7517", "C7514"]
    assert "product_kernel on sm_90a: C7514: the wgmmas run one after another" in problems[1]
    path.write_text(kernel({}))
    assert gate.problems(path, gate.check_file(path)) == []


def test_the_gate_refuses_spills_on_hopper(tmp_path):
    path = tmp_path / "large.cu"
    path.write_text("// Needs     compute capability 9.0a\n" + LARGE)
    spills, note = gate.problems(path, gate.check_file(path))
    assert "large_kernel on sm_90a spills" in spills and "C7511" in note


def test_the_learner_sees_the_note_where_the_kernel_runs(monkeypatch, tmp_path):
    pytest.importorskip("cupy")
    from course_lib.cuda import cupy_engine, signature

    monkeypatch.setattr(device, "current", lambda: device.KNOWN_GPUS["H200"])
    monkeypatch.setenv("COURSE_CACHE_DIR", str(tmp_path))
    text = kernel(WRONG["C7514"])

    class Cupy:
        class RawModule:
            def __init__(self, path):
                pass

            def get_function(self, name):
                return name

    monkeypatch.setattr(cupy_engine, "_cupy", lambda: Cupy)
    parameters = signature.parse(text, "product_kernel")
    options = {"defines": {}, "filename": "<cell>", "first_line": 1}
    with pytest.warns(UserWarning, match=r"<cell>: the compiler's notes on product_kernel:[^!]*C7514: the wgmmas"):
        cupy_engine.CupyModule(text, "product_kernel", parameters, **options)


def test_the_learner_sees_the_note_beside_the_machine_code(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    compiled = sass.as_compiled(kernel(WRONG["C7514"]), None, arch="sm_90a")
    assert notes.meaning("C7514") in compiled.notes and notes.meaning("C7514") in str(compiled)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_100a", "sm_120a"])
def test_wgmma_elsewhere_is_a_sentence(arch):
    text = '#include "common/wgmma.cuh"\nextern "C" __global__ void k() { wgmma_fence(); }'
    with pytest.raises(CompileError, match=r"wgmma needs compute capability 9.0a \(sm_90a\); neither older nor newer"):
        nvrtc.compile_cubin(text, arch=arch)


def test_counts_of_the_machine_code():
    clean = sass_facts.facts(sass.as_compiled(kernel({}), None, arch="sm_90a"))
    assert clean.counts["HGMMA"] >= 2 and clean.counts["HGMMA"] == 2 * clean.counts["WARPGROUP.ARRIVE"]
    assert clean.counts["QGMMA"] == clean.counts["UTMALDG"] == clean.counts["USETMAXREG"] == clean.counts["SYNCS"] == 0
    assert not clean.is_serialised and 0 < clean.registers == clean.row()["registers"] and clean.spill_bytes == 0
    serial = sass_facts.facts(sass.as_compiled(kernel(WRONG["C7514"]), None, arch="sm_90a"))
    assert serial.is_serialised and serial.counts["WARPGROUP.ARRIVE"] >= serial.counts["HGMMA"] >= 2
    assert set(serial.row()) == {"registers", "spill_bytes", *sass_facts.COUNTED}


def test_counts_of_tma_barriers_registers_and_eight_bits():
    text = """#include "common/setmaxnreg.cuh"
#include "common/tma.cuh"
#include "common/wgmma.cuh"
extern "C" __global__ void __launch_bounds__(256, 1)
k(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to, unsigned long long tile, float* out) {
    extern __shared__ unsigned char tile_smem[];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    if (threadIdx.x < 128) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0) mbarrier_arrive_expect_tx(&full, 1024), tma_load_2d(tile_smem, &from, &full, 0, 0);
    } else {
        setmaxnreg_inc<232>();
        float acc[32] = {};
        mbarrier_wait_parity(&full, 0);
        wgmma_fence();
        wgmma_m64k32_f32_e4m3_ss(acc, tile, tile, 1);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = acc[i];
        if (threadIdx.x == 128) tma_store_2d(&to, tile_smem, 0, 0), bulk_commit_group();
    }
}
"""
    found = sass_facts.facts(sass.as_compiled(text, "k", arch="sm_90a"))
    expected = {"HGMMA": 0, "QGMMA": 1, "WARPGROUP.ARRIVE": 1, "UTMALDG": 1, "UTMASTG": 1, "USETMAXREG": 2}
    assert {name: found.counts[name] for name in expected} == expected
    assert found.counts["SYNCS"] >= 3 and not found.is_serialised and found.spill_bytes == 0
    changed = dataclasses.replace(found, counts=found.counts | {"WARPGROUP.ARRIVE": 2, "QGMMA": 2})
    assert changed.is_serialised


def test_a_launcher_gives_its_kernel_the_same_notes(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    plain = cuda.compile('extern "C" __global__ void k(float* x) { x[0] = 1; }')
    assert plain.as_compiled("sm_90a").notes == ""
