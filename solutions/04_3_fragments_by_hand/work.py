"""What the ledger of a right product by fragments says: who multiplied, and what each lane read and wrote.

May import: verdict, subjects.matmul.traffic.
"""

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.matmul.traffic import reuse, shared_out

TILE_M, TILE_N, TILE_K = 16, 8, 16


def as_promised(case, ledger):
    """Diagnosis or None: one mma for each 16 of k, each number read once by its block, four sums a lane."""
    steps = case.sizes["size_k"] // TILE_K
    why = "8 numbers of a and 4 of b for each 16 of k, twice that at most, and four sums"
    return (
        _by_mma(case, ledger["mma"])
        or reuse(case, ledger, (TILE_M, TILE_N), in_bytes=2)
        or shared_out(case, ledger, stored=16, loaded=2 * 24 * steps, why=why)
    )


def _by_mma(case, made):
    """Diagnosis or None: as many mma as the product has tiles and steps, with float sums."""
    size_m, size_n, size_k = case.sizes.values()
    needed = size_m * size_n * size_k // (TILE_M * TILE_N * TILE_K)
    right, others = made["f32_f16"], {name: count for name, count in made.items() if name != "f32_f16" and count}
    if right == needed and not others:
        return None
    start = f"The values are right (case {case.name!r}), but a block calls mma_m16n8k16_f32_f16 once for each 16 of k"
    if others:
        said = ", ".join(f"mma_m16n8k16_{name} {count:,} times" for name, count in others.items())
        return Diagnosis(
            "other_mma", f"{start}, {needed:,} times in all; this answer calls it {right:,} times and {said}."
        )
    if right == 0:
        return Diagnosis("no_mma", f"{start}, {needed:,} times in all; this answer never calls it.")
    return Diagnosis("mma_count", f"{start}, {needed:,} times in all; this answer calls it {right:,} times.")
