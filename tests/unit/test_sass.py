"""sass.py: the as-compiled ledger tells widths and counts of the machine code, on the author's lines."""

import pytest

from course_lib.cuda import gate, nvrtc, sass

SOURCE = """extern "C" __global__ void k(const float4* a, float* out, const unsigned char* bytes) {
    __shared__ float tile_smem[32];
    const int t = threadIdx.x;
    tile_smem[t] = a[t].x + a[t].y + a[t].z + a[t].w;
    __syncthreads();
    out[t] = tile_smem[31 - t];
    atomicAdd(out + 64, 1.0f);
    out[t + 32] = bytes[t];
}
"""


@pytest.fixture(scope="module")
def compiled():
    return sass.as_compiled(SOURCE, "k", arch="sm_90", filename="cell 3", first_line=11)


def test_four_scalar_loads_become_one_wide_one(compiled):
    [load] = compiled.at_line(14, "global")
    assert (load.opcode[:3], load.kind, load.bytes, load.count) == ("LDG", "load", 16, 1)
    [store] = compiled.at_line(14, "shared")
    assert (store.kind, store.bytes, store.count) == ("store", 4, 1)


def test_narrow_loads_and_atomics_are_told(compiled):
    assert [(access.kind, access.bytes) for access in compiled.at_line(18)] == [("load", 1), ("store", 4)]
    assert [(access.space, access.kind) for access in compiled.at_line(17)] == [("global", "atomic")]
    assert [(access.space, access.kind) for access in compiled.at_line(16)] == [("shared", "load"), ("global", "store")]


@pytest.mark.parametrize("arch", gate.ARCHITECTURES)
def test_every_architecture_is_read(arch):
    report = sass.as_compiled(SOURCE, "k", arch=arch, filename="cell 3", first_line=11)
    assert [access.bytes for access in report.at_line(14)] == [16, 4]
    assert {access.file for access in report.accesses} == {"cell 3"}


def test_resources(compiled):
    assert compiled.registers > 0 and compiled.shared_bytes == 128 and compiled.spill_bytes == 0
    assert str(compiled).startswith("k on sm_90:") and "16 bytes a thread" in str(compiled)


def test_only_the_named_kernel_is_read():
    two = SOURCE + 'extern "C" __global__ void other(int* x) { x[threadIdx.x] = 1; }\n'
    names = {access.line for access in sass.as_compiled(two, "other").accesses}
    assert names == {10}


def test_scalar_reads_of_a_shared_row_are_widened():
    source = """extern "C" __global__ void k(const float* a, float* out) {
    __shared__ float tile_smem[16][16];
    tile_smem[threadIdx.y][threadIdx.x] = a[threadIdx.y * 16 + threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
    for (int d = 0; d < 16; ++d) sum += tile_smem[threadIdx.y][d];
    out[threadIdx.y * 16 + threadIdx.x] = sum;
}
"""
    [load] = sass.as_compiled(source, "k").at_line(6, "shared")
    assert (load.bytes, load.count) == (16, 4)


def test_spills_are_seen():
    source = """extern "C" __global__ void __launch_bounds__(1024, 2) k(const float* x, float* out) {
    float v[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) v[i] = x[threadIdx.x + 1024 * i];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 64; ++i) out[threadIdx.x + 1024 * i] = v[63 - i] * v[i];
}
"""
    report = sass.as_compiled(source, "k")
    assert report.spill_bytes > 0 and any(access.space == "local" for access in report.accesses)


def test_width_of_suffixes():
    assert [sass._width(text) for text in ("", ".E", ".E.64", ".E.128.CONSTANT", ".U16", ".S8")] == [4, 4, 8, 16, 2, 1]


def test_disassembly_needs_machine_code():
    with pytest.raises(Exception, match="nvdisasm refused"):
        sass.disassemble(b"not an ELF file")
    assert nvrtc.compile_cubin(SOURCE, arch="sm_80").code[:4] == b"\x7fELF"


def test_ptx_and_machine_code_of_a_kernel_are_lists_of_instructions():
    compiled = sass.as_compiled((gate.KERNELS_ROOT / "vector" / "01_add.cu").read_text(), "add_kernel")
    ptx, machine = compiled.ptx_instructions(), compiled.machine_instructions()
    assert sum("ld.global.f32" in line for line in ptx) == 2 and ptx[-1] == "ret;"
    assert sum(line.startswith("LDG.E") for line in machine) == 2 and "EXIT" in machine[-1]
    assert all(line.endswith(";") for line in (*ptx, *machine))
