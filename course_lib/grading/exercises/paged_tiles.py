"""Decode attention over pages in Triton, a page a tile.

May import: spec, protocol, paged_cases, paged_readings.
"""

from ..exercise.spec import Exercise
from ..processes.protocol import Run
from ..subjects.paged import cases as cases
from ..subjects.paged import diagnostics as readings


def _run(case, tensors):
    arguments = cases.arguments(case, tensors, tensors["block_table"].shape[1])
    constants = {"HEAD_DIM": cases.HEAD_DIM, "PAGE_SIZE": case.sizes["page_size"]}
    grid = cases.grid(case, tensors)
    return Run(case.name, tensors, cases.outputs(tensors), arguments, grid=grid, constants=constants)


TILES = Exercise(
    id="10.4",
    title="Paged decode in Triton: a page a tile, the last one partial",
    language="triton",
    entry="paged_tiles_kernel",
    signature=(
        "paged_tiles_kernel(q_ptr, k_pages_ptr, v_pages_ptr, block_table_ptr, seq_lens_ptr, out_ptr, lse_ptr,\n"
        "                   num_q_per_kv, max_pages, stride_page, stride_slot, stride_kv_head, softmax_scale,\n"
        "                   HEAD_DIM, PAGE_SIZE)"
    ),
    contract=(
        "As 10.3, in Triton: q, out (B, H, HEAD_DIM) float32, contiguous; page p, slot s, head h of both pools begins "
        "at p * stride_page + s * stride_slot + h * stride_kv_head; block_table (B, max_pages), seq_lens (B,) int32; "
        "lse (B, H) float32, natural log; a sequence without tokens: out 0, lse -inf. What lies behind a sequence may "
        "be anything, NaN in the slots of its last page and -1 in the table. Grid (H, B); PAGE_SIZE is a power of two."
    ),
    size_lines=20,
    minutes=30,
    solution="course_lib/triton_kernels/paged_exercises.py#paged_tiles_kernel",
    cases=(
        *cases.usual(),
        cases.case("pages of 1", (5, 2), 1, (2, 1)),
        cases.case("pages of 16", (20, 16), 16, (1, 1)),
    ),
    make_inputs=cases.inputs,
    make_run=_run,
    oracle=cases.oracle,
    baseline=cases.baseline,
    rules={"out": "weights", "lse": "lse"},
    largest_score=cases.largest_score,
    hints=(
        "A page is a tile of PAGE_SIZE keys that lie side by side. How many pages has a sequence, and which of them is "
        "not full?",
        "there = i * PAGE_SIZE + slots < seq_len, for page i of the sequence. Load k and v with mask=there[:, None], "
        "other=0.0, and make the score of a slot that is not there -inf.",
        "for i in range(0, tl.cdiv(seq_len, PAGE_SIZE)): page = tl.load(block_table_ptr + batch * max_pages + i)"
        ".to(tl.int64); at = page * stride_page + kv_at + slots[:, None] * stride_slot + d[None, :]; scores = "
        "tl.where(there, tl.sum(q[None, :] * k, axis=1) * softmax_scale, -float('inf')); then m_new, alpha, l and acc.",
    ),
    explanation=(
        "One table entry a page, and the loads of a page lie side by side: the larger the page, the fewer lookups, and "
        "the more slots of the last page that nobody uses. other=0.0 is not a matter of taste: the weight of a slot "
        "behind the sequence is 0, but 0 times NaN is NaN."
    ),
    probes=readings.probes(),
    diagnose=readings.diagnose,
    bound_bytes=cases.bound,
    tile=lambda case: (1, cases.HEAD_DIM),
)
