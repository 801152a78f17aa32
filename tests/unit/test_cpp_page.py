"""chapters/cpp.md: its pieces of C++ compile together, and give the numbers that the page says."""

import re

import torch

from course_lib import cuda

KERNEL = """
extern "C" __global__ void page_kernel(const float* x, float* out) {
    PAGE_VALUES
    float a = 1.0f, b = 2.0f;
    swap_them(a, b);
    const State both = merged({1.0f, 2.0f}, {3.0f, 4.0f});
    const float results[] = {
        (float)count, (float)mask, (float)(offset >> 40), half, (float)is_odd, same, (float)(7 / 2),
        (float)(-7 / 2), 7 / 2.0f, (float)(-7 % 3), (float)sum_below(5), a, sum_of(x, 4), both.m, both.l,
        of_array(), (float)TILE, (float)CEIL_OF(10, 4), of_template(x), of_lambda(1.0f),
        (float)sizeof(float4), reinterpret_cast<const float4*>(x)->y, x[1 * 2 + 1], (float)fixed, of_structures()};
    for (int i = 0; i < 25; ++i) out[i] = results[i];
}
"""


def pieces(root):
    text = (root / "chapters" / "cpp.md").read_text(encoding="utf-8")
    return re.findall(r"```c\+\+\n(.*?)```", text, re.DOTALL)


def test_every_piece_compiles_and_every_number_is_right(root, monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    values, *others = pieces(root)
    device = re.sub(r"^(int|void|float|State|T) (\w+\()", r"__device__ \1 \2", "\n".join(others), flags=re.MULTILINE)
    text = device + KERNEL.replace("PAGE_VALUES", values)
    x, out = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.zeros(25)
    kernel = cuda.compile(text, "page_kernel")
    kernel(1, 1, x, out)
    wanted = [7, 255, 1, 0.5, 1, 0.5, 3, -3, 3.5, -1, 10, 2, 10, 3, 6, 20, 16, 3, 6, 21, 16, 2, 4, 3, 194.5]
    assert out.tolist() == wanted  # sum_below(5): 0 + 1 + 2 + 4, then 5, 2, 1
    assert kernel.as_compiled("sm_90")


def test_the_page_is_linked_before_the_first_kernel(root):
    for chapter in ("00_the_driving_question", "02_first_kernels"):
        text = (root / "chapters" / f"{chapter}.md").read_text(encoding="utf-8")
        assert "(../chapters/cpp.md)" in text
