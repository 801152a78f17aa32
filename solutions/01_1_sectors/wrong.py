"""Wrong answers to 01.1, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

FURTHER, THIRD, BACKWARDS = "one_further = 5", "every_third = 12", "backwards = 4"
VECTORS, REPEATED = "vectors = 16", "repeated = 1"
RETURN = "return one_further, every_third, backwards, vectors, repeated"

ANSWERS = [
    Wrong("alignment forgotten", ((FURTHER, "one_further = 4"),), "alignment_forgotten", "between byte 4 and byte 131"),
    Wrong("the gaps forgotten", ((THIRD, "every_third = 4"),), "gaps_forgotten", "Sectors travel whole"),
    Wrong("one sector a lane", ((THIRD, "every_third = 32"),), "one_a_lane", "touches 12 sectors"),
    Wrong("off by one", ((THIRD, "every_third = 13"),), "miscounted", "the sectors 0 to 11"),
    Wrong("backwards costs more", ((BACKWARDS, "backwards = 32"),), "order_counted", "Which lane takes which"),
    Wrong("backwards and one further", ((BACKWARDS, "backwards = 5"),), "order_counted", "touches 4 sectors"),
    Wrong("float4 as a float", ((VECTORS, "vectors = 4"),), "size_forgotten", "512 bytes"),
    Wrong("a sector for each float4", ((VECTORS, "vectors = 32"),), "one_a_lane", "touches 16 sectors"),
    Wrong("repeats counted", ((REPEATED, "repeated = 4"),), "repeats_counted", "16 different bytes"),
    Wrong("repeats in bytes", ((REPEATED, "repeated = 32"),), "one_a_lane", "touches 1 sector:"),
    Wrong("bytes for sectors", ((BACKWARDS, "backwards = 128"),), "in_bytes", "a sector has 32"),
    Wrong("cache lines for sectors", ((THIRD, "every_third = 3"),), "in_lines", "a quarter"),
    Wrong("four counts", ((RETURN, "return one_further, every_third, backwards, vectors"),), "wrong_return"),
    Wrong("a word", ((FURTHER, 'one_further = "five"'),), "wrong_return"),
]
