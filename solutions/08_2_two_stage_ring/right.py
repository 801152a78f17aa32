"""Right answers to 08.2: the same ring in other words."""

from course_lib.grading.exercise.submissions import Right

WRAP = """\
        if (++stage == NUM_STAGES) {
            stage = 0;
            parity ^= 1;
        }
"""
LOOP = "int stage = 0;\n    unsigned parity = 0;\n    for (int tile = 0; tile < num_tiles; ++tile) {\n"
COUNT = "mbarrier_init(&empty[stage], NUM_CONSUMERS);"
RELEASE = "mbarrier_arrive(&empty[stage]);"
WAIT_EMPTY = "mbarrier_wait_parity(&empty[stage], parity ^ 1);  // in the first round it is empty"
EXPECT = "            mbarrier_arrive_expect_tx(&full[stage], TILE_BYTES);\n"
LOAD = "            tma_load_2d(tile_smem, &x_map, &full[stage], 0, first_row + tile * TILE_ROWS);\n"
INCLUDE = '#include "common/tma.cuh"'

TWO_LOOPS = """\
    if (threadIdx.x == 0) {
        Ring<NUM_STAGES> ring;
        for (int tile = 0; tile < num_tiles; ++tile, ring.advance()) {
            mbarrier_wait_parity(&empty[ring.stage], ring.parity ^ 1);
            mbarrier_arrive_expect_tx(&full[ring.stage], TILE_BYTES);
            tma_load_2d(tiles_smem + ring.stage * (TILE_ROWS * NUM_COLS), &x_map, &full[ring.stage], 0,
                        first_row + tile * TILE_ROWS);
        }
    }
    Ring<NUM_STAGES> ring;
    for (int rows = num_rows; col >= 0 && rows > 0; rows -= TILE_ROWS, ring.advance()) {
        mbarrier_wait_parity(&full[ring.stage], ring.parity);
        sum += column_sum(tiles_smem + ring.stage * (TILE_ROWS * NUM_COLS), col, rows < TILE_ROWS ? rows : TILE_ROWS);
        mbarrier_arrive(&empty[ring.stage]);
    }
"""
ONE_LOOP = """\
    int stage = 0;
    unsigned parity = 0;
    for (int tile = 0; tile < num_tiles; ++tile) {
        float* tile_smem = tiles_smem + stage * TILE_ROWS * NUM_COLS;
        if (threadIdx.x == 0) {
            mbarrier_wait_parity(&empty[stage], parity ^ 1);  // in the first round it is empty
            mbarrier_arrive_expect_tx(&full[stage], TILE_BYTES);
            tma_load_2d(tile_smem, &x_map, &full[stage], 0, first_row + tile * TILE_ROWS);
        } else if (col >= 0) {
            mbarrier_wait_parity(&full[stage], parity);
            sum += column_sum(tile_smem, col, min(TILE_ROWS, num_rows - tile * TILE_ROWS));
            mbarrier_arrive(&empty[stage]);
        }
        if (++stage == NUM_STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
"""

ANSWERS = [
    Right(
        "stage and parity from the tile's number",
        (
            (LOOP, "for (int tile = 0; tile < num_tiles; ++tile) {\n        const int stage = tile % NUM_STAGES;\n"
             "        const unsigned parity = tile / NUM_STAGES & 1;\n"),
            (WRAP, ""),
        ),
    ),
    Right(
        "one arrival of each consumer warp",
        (
            (COUNT, COUNT.replace("NUM_CONSUMERS", "NUM_CONSUMERS / 32")),
            (RELEASE, "__syncwarp();\n            if (col % 32 == 0) " + RELEASE),
        ),
    ),
    Right("expect after the load", ((EXPECT, ""), (LOAD, LOAD + EXPECT))),
    Right("thread 7 loads", (("if (threadIdx.x == 0) {\n            " + WAIT_EMPTY,
                              "if (threadIdx.x == 7) {\n            " + WAIT_EMPTY),)),
    Right("no wait in the first round", ((WAIT_EMPTY, f"if (tile >= NUM_STAGES) {WAIT_EMPTY}"),)),
    Right("no release of the last round", ((RELEASE, f"if (tile + NUM_STAGES < num_tiles) {RELEASE}"),)),
    Right("a phase counter for each side", (
        (LOOP, LOOP.replace("unsigned parity = 0;", "unsigned round = 0;").replace(
            "++tile) {\n", "++tile) {\n        const unsigned parity = round % 2;\n")),
        (WRAP, "        stage = (stage + 1) % NUM_STAGES;\n        round += stage == 0;\n"),
    )),
    Right("a loop for each side", ((INCLUDE, '#include "common/ring.cuh"\n' + INCLUDE), (ONE_LOOP, TWO_LOOPS))),
    Right("a load in two arrivals", (
        ("mbarrier_init(&full[stage], 1);", "mbarrier_init(&full[stage], 2);"),
        (LOAD, LOAD + "            mbarrier_arrive(&full[stage]);\n"),
    )),
]  # fmt: skip
