"""Wrong answers to 10.5, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong, one

FIRST = "first = part * partition_len"
END = "end = tl.minimum(seq_len, first + partition_len)"
NUM_PARTS = "num_parts = tl.maximum(tl.cdiv(seq_len, partition_len), 1)"
MASK = "mask = parts < num_parts"
ROWS = "rows = row * num_partitions + parts"
LARGEST = "largest = tl.max(part_lse, axis=0)"
WEIGHTS = 'weights = tl.where(part_lse > -float("inf"), tl.exp(part_lse - largest), 0.0)'
SAFE = "total = tl.where(total > 0.0, total, 1.0)"
OUT = "tl.store(out_ptr + row * HEAD_DIM + d, tl.sum(weights[:, None] * part_out, axis=0) / total)"
LSE = "tl.store(lse_ptr + row, largest + tl.log(total))"


ANSWERS = [
    # bounds
    Wrong(
        "the end of the partition",
        one(END, ("tl.minimum(seq_len, first + partition_len)", "first + partition_len")),
        "past_the_sequence",
        "up to key 9",
    ),
    Wrong(
        "boundary twice", one(END, ("first + partition_len", "first + partition_len + 1")), "boundary_twice", "token 5"
    ),
    Wrong(
        "boundary never", one(END, ("first + partition_len", "first + partition_len - 1")), "boundary_never", "token 4"
    ),
    Wrong(
        "begins one later",
        one(FIRST, ("part * partition_len", "part * partition_len + (part > 0)")),
        "boundary_never",
        "token 5",
    ),
    Wrong("partitions of a page", one(FIRST, ("partition_len", "PAGE_SIZE")), "wrong_start", "page size"),
    Wrong(
        "partitions in pages",
        one(FIRST, ("partition_len", "partition_len * PAGE_SIZE")),
        "last_partition_lost",
        "missing",
    ),
    Wrong(
        "whole partitions alone",
        one(NUM_PARTS, ("tl.cdiv(seq_len, partition_len)", "seq_len // partition_len")),
        "last_partition_lost",
        "not full",
    ),
    Wrong(
        "no program for an empty sequence",
        one(NUM_PARTS, ("tl.maximum(tl.cdiv(seq_len, partition_len), 1)", "tl.cdiv(seq_len, partition_len)")),
        "unwritten",
        "row 0",
    ),
    Wrong(
        "one partition too many",
        one(NUM_PARTS, ("tl.cdiv(seq_len, partition_len)", "seq_len // partition_len + 1")),
        "unwritten",
        "Nothing was written",
    ),
    # the reduction
    Wrong(
        "partitions that were not written",
        one(MASK, ("num_parts", "num_partitions")),
        "uninitialised_read",
        "partial_lse",
    ),
    Wrong("row without partitions", one(ROWS, ("row * num_partitions", "row")), "race", "partial_out"),
    Wrong("plain mean", one(WEIGHTS, ("tl.exp(part_lse - largest)", "1.0")), "plain_mean", "plain mean"),
    Wrong(
        "weights are lse",
        one(WEIGHTS, ("tl.exp(part_lse - largest)", "part_lse")),
        "weighted_by_lse",
        "ratio of their lse",
    ),
    Wrong(
        "no maximum",
        (
            (LARGEST, "largest = 0.0"),
            (SAFE, "empty = total == 0.0\n            " + SAFE),
            (LSE, LSE.replace("largest + tl.log(total)", 'tl.where(empty, -float("inf"), tl.log(total))')),
        ),
        "no_max",
        "largest lse",
    ),
    Wrong("exp2", one(WEIGHTS, ("tl.exp(", "tl.exp2(")), "exp_exp2_mix", "natural"),
    Wrong(
        "weights turned round",
        one(WEIGHTS, ("part_lse - largest", "largest - part_lse")),
        "inverse_weights",
        "turned round",
    ),
    Wrong(
        "-inf minus -inf",
        one(
            WEIGHTS,
            ('tl.where(part_lse > -float("inf"), tl.exp(part_lse - largest), 0.0)', "tl.exp(part_lse - largest)"),
        ),
        "empty_sequence",
        "no token",
    ),
    Wrong("never divided", one(OUT, (" / total", "")), "no_division", "division"),
    Wrong("0 / 0", one(SAFE, (SAFE, "")), "empty_sequence", "no token"),
    Wrong(
        "weighted by keys",
        one(
            WEIGHTS,
            (
                "tl.exp(part_lse - largest)",
                "(tl.minimum(seq_len, (parts + 1) * partition_len) - parts * partition_len).to(tl.float32)",
            ),
        ),
        "weighted_by_keys",
        "Only lse",
    ),
    Wrong("lse is the largest", one(LSE, (" + tl.log(total)", "")), "lse_without_sum", "largest alone"),
    Wrong("lse without the largest", one(LSE, ("largest + ", "")), "lse_without_max", "largest is missing"),
    Wrong("lse in base 2", one(LSE, ("tl.log(", "tl.log2(")), "lse_base_2", "natural"),
    Wrong(
        "first partition alone",
        one(MASK, ("parts < num_parts", "parts < 1")),
        "last_partition_lost",
        "missing",
    ),
]
