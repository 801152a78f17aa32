"""Wrong answers to 04.3, each an edit of answer.cu."""

from course_lib.grading.exercise.submissions import Wrong

LANES = "const int g = threadIdx.x / 4, t = threadIdx.x % 4;"
A_PLACE = "const int row = g + i % 2 * 8, k = k_start + 2 * t + i / 2 * 8;"
A_PACK = "pack(a[row * size_k + k], a[row * size_k + k + 1])"
B_PLACE = "const int k = k_start + 2 * t + i * 8;"
B_PACK = "pack(b[k * size_n + g], b[(k + 1) * size_n + g])"
C_PLACE = "const int row = g + i / 2 * 8, col = 2 * t + i % 2;"
K_LOOP = "for (int k_start = 0; k_start < size_k; k_start += 16) {\n"
MMA = "mma_m16n8k16_f32_f16(acc, a_reg, b_reg, acc);"
STORE = "out[row * size_n + col] = acc[i];"
STORE_LOOP = "for (int i = 0; i < 4; ++i) {\n        const int row = g + i / 2 * 8"

HALF_SUMS = (
    (
        MMA,
        """unsigned c[2] = {pack(__float2half(acc[0]), __float2half(acc[1])),
                         pack(__float2half(acc[2]), __float2half(acc[3]))};
        mma_m16n8k16_f16_f16(c, a_reg, b_reg, c);
        for (int i = 0; i < 4; ++i) acc[i] = __half2float(__ushort_as_half(c[i / 2] >> (i % 2 * 16) & 0xffff));""",
    ),
)

ANSWERS = [
    # a
    Wrong(
        "a[1] and a[2] exchanged",
        ((A_PLACE, "const int row = g + i / 2 * 8, k = k_start + 2 * t + i % 2 * 8;"),),
        "a_registers",
        "a[1] and a[2] are exchanged",
    ),
    Wrong(
        "the halves of a exchanged",
        ((A_PACK, "pack(a[row * size_k + k + 1], a[row * size_k + k])"),),
        "halves",
        "low 16 bits",
    ),
    Wrong(
        "g and t exchanged for a",
        (
            (
                A_PLACE,
                "const int row = threadIdx.x % 8 + i % 2 * 8, k = k_start + 2 * (threadIdx.x / 8) + i / 2 * 8;",
            ),
        ),
        "a_lanes",
        "names the row",
    ),
    Wrong("rows g alone", ((A_PLACE, A_PLACE.replace("g + i % 2 * 8", "g")),), "a_rows", "row g + 8"),
    Wrong("k up to 7 alone in a", ((A_PLACE, A_PLACE.replace(" + i / 2 * 8", "")),), "a_k", "2t + 8"),
    Wrong(
        "neighbouring rows of a",
        ((A_PLACE, A_PLACE.replace("g + i % 2 * 8", "2 * g + i % 2")),),
        "a_neighbours",
        "g and g + 8",
    ),
    Wrong(
        "numbers of a 4 apart in a register",
        (
            (A_PLACE, A_PLACE.replace("2 * t", "t")),
            (A_PACK, "pack(a[row * size_k + k], a[row * size_k + k + 4])"),
        ),
        "a_pairs",
        "neighbours",
    ),
    # b
    Wrong("b[0] and b[1] exchanged", ((B_PLACE, B_PLACE.replace("i * 8", "(1 - i) * 8")),), "b_registers", "b[0]"),
    Wrong(
        "the halves of b exchanged",
        ((B_PACK, "pack(b[(k + 1) * size_n + g], b[k * size_n + g])"),),
        "halves",
        "low 16 bits",
    ),
    Wrong(
        "g and t exchanged for b",
        (
            (B_PLACE, "const int k = k_start + 2 * (threadIdx.x / 8) + i * 8;"),
            (B_PACK, "pack(b[k * size_n + threadIdx.x % 8], b[(k + 1) * size_n + threadIdx.x % 8])"),
        ),
        "b_lanes",
        "names the column",
    ),
    Wrong("k up to 7 alone in b", ((B_PLACE, B_PLACE.replace(" + i * 8", "")),), "b_k", "2t + 8"),
    Wrong(
        "numbers of b 4 apart in a register",
        (
            (B_PLACE, B_PLACE.replace("2 * t", "t")),
            (B_PACK, "pack(b[k * size_n + g], b[(k + 4) * size_n + g])"),
        ),
        "b_pairs",
        "2t and 2t + 1",
    ),
    Wrong(
        "b read along its rows, as a is",
        (
            (B_PLACE, "const int k = k_start + g + i * 8;"),
            (B_PACK, "pack(b[k * size_n + 2 * t], b[k * size_n + 2 * t + 1])"),
        ),
        "b_along_rows",
        "along its rows",
    ),
    # out
    Wrong(
        "acc[1] and acc[2] exchanged",
        ((C_PLACE, "const int row = g + i % 2 * 8, col = 2 * t + i / 2;"),),
        "c_rows",
        "acc[1] and acc[2]",
    ),
    Wrong(
        "g and t exchanged for out",
        ((C_PLACE, "const int row = threadIdx.x % 8 + i / 2 * 8, col = 2 * (threadIdx.x / 8) + i % 2;"),),
        "c_lanes",
        "names the row",
    ),
    Wrong("columns t and t + 4", ((C_PLACE, C_PLACE.replace("2 * t + i % 2", "t + i % 2 * 4")),), "c_columns", "2t"),
    Wrong("columns in the other order", ((C_PLACE, C_PLACE.replace("+ i % 2;", "+ 1 - i % 2;")),), "c_pair_order"),
    Wrong("neighbouring rows of out", ((C_PLACE, C_PLACE.replace("g + i / 2 * 8", "2 * g + i / 2")),), "c_neighbours"),
    Wrong(
        "g and t exchanged throughout",
        ((LANES, "const int g = threadIdx.x % 8, t = threadIdx.x / 8;"),),
        "lanes_exchanged",
        "g = lane / 4",
    ),
    Wrong("the upper rows alone are stored", ((STORE_LOOP, STORE_LOOP.replace("i < 4", "i < 2")),), "unwritten", "row"),
    Wrong("stored by one lane", ((STORE, "if (threadIdx.x == 0) " + STORE),), "unwritten"),
    Wrong("stored by one lane for all", ((STORE, "out[i] = acc[i];"),), "race"),
    # two at once
    Wrong(
        "registers of a and numbers of acc exchanged",
        (
            (A_PLACE, "const int row = g + i / 2 * 8, k = k_start + 2 * t + i % 2 * 8;"),
            (C_PLACE, "const int row = g + i % 2 * 8, col = 2 * t + i / 2;"),
        ),
        "a_registers",
        "; and acc[1]",
    ),
    # k, rows, precision
    Wrong("steps of 8 in k", ((K_LOOP, K_LOOP.replace("+= 16", "+= 8")),), "out_of_bounds", ""),
    Wrong(
        "one step of k", ((K_LOOP, K_LOOP.replace("k_start < size_k", "k_start < 16")),), "one_tile", "one step alone"
    ),
    Wrong(
        "acc not kept",
        ((MMA, "const float zero[4] = {};\n        " + MMA.replace("b_reg, acc", "b_reg, zero")),),
        "one_tile",
        "kept from step to step",
    ),
    Wrong("k not moved on in a", ((A_PLACE, A_PLACE.replace("k_start + ", "")),), "k_mismatch"),
    Wrong("rows of b as long as a tile", ((B_PACK, B_PACK.replace("size_n", "8")),), "leading_dimension", "8 numbers"),
    Wrong("rows of b as long as those of a", ((B_PACK, B_PACK.replace("size_n", "size_k")),), "out_of_bounds"),
    Wrong(
        "rows of a as long as a tile", ((A_PACK, A_PACK.replace("size_k", "16")),), "leading_dimension", "16 numbers"
    ),
    Wrong("rows of out as long as a tile", ((STORE, STORE.replace("size_n", "8")),), "race"),
    Wrong("sums in half precision", HALF_SUMS, "low_precision", "compute in float"),
    Wrong("half taken for bfloat16", ((MMA, MMA.replace("f32_f16", "f32_bf16")),), "bfloat16", "2^-7"),
    Wrong("mma inside a condition", ((MMA, "if (t < 3) " + MMA),), "exception", "all 32 lanes"),
]
