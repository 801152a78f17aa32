"""Wrong answers to 06.5, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

NEEDED = "return 4 * (2 * block_m * head_dim + 2 * block_n * head_dim + block_m * block_n)"
RETURN = "return min(block_n, head_dim), block_n"
LOOP = "while needed_bytes(block_n + 1) <= sram_bytes:"

ANSWERS = [
    Wrong(
        "the paper's formula",
        ((RETURN, "block_n = -(-sram_bytes // 4 // (4 * head_dim))\n    return min(block_n, head_dim), block_n"),),
        "does_not_fit",
        "bytes",
    ),
    Wrong(
        "scores forgotten",
        ((NEEDED, NEEDED.replace(" + block_m * block_n", "")),),
        "scores_forgotten",
        "scores must fit",
    ),
    Wrong("bytes for numbers", ((NEEDED, NEEDED.replace("4 * (", "(")),), "does_not_fit", "bytes"),
    Wrong("half precision", ((NEEDED, NEEDED.replace("4 * (", "2 * (")),), "does_not_fit", "bytes"),
    Wrong("K without V", ((NEEDED, NEEDED.replace("2 * block_n", "block_n")),), "does_not_fit", "K and V"),
    Wrong("block_m not capped", ((RETURN, "return block_n, block_n"),), "block_m_wrong", "min(block_n, head_dim)"),
    Wrong("room left", ((LOOP, "while needed_bytes(block_n + 1) < sram_bytes:"),), "too_small", "would fit"),
    Wrong(
        "powers of two",
        ((RETURN, "block_n = 1 << (block_n.bit_length() - 1)\n    return min(block_n, head_dim), block_n"),),
        "too_small",
        "would fit",
    ),
    Wrong("the two exchanged", ((RETURN, "return block_n, min(block_n, head_dim)"),), "block_m_wrong", ""),
]
