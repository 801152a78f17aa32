"""Wrong answers to 04.5, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

INTENSITY = "return 2 * block_m * block_n / ((block_m + block_n) * itemsize)"
STAGES = "stages_bytes = num_stages * (block_m + block_n) * block_k * itemsize"
FITS = "return stages_bytes <= smem_bytes and 4 * block_m * block_n <= acc_bytes"
TILES = "tiles = [(m, n) for m in sizes for n in sizes if n <= m and fits((m, n))]"
ENOUGH = "enough = [tile for tile in tiles if intensity(tile) >= 1000 * tflops / gbps]"
BEST = "return min(enough, key=lambda tile: (tile[0] * tile[1], -intensity(tile)))"
OTHERWISE = "return max(tiles, key=intensity)"

ANSWERS = [
    Wrong("one FLOP a product", ((INTENSITY, INTENSITY.replace("2 * ", "")),), "too_large", "smaller"),
    Wrong(
        "numbers in place of bytes",
        ((INTENSITY, "return 2 * block_m * block_n / (block_m + block_n)"),),
        "below_the_ridge",
    ),
    Wrong("one side alone", ((INTENSITY, "return 2 * block_m / itemsize"),), "below_the_ridge", "waits for memory"),
    Wrong("the unit of the ridge", ((ENOUGH, ENOUGH.replace("1000 * ", "")),), "below_the_ridge", "waits for memory"),
    Wrong("above the ridge alone", ((ENOUGH, ENOUGH.replace(">=", ">")),), "too_large", "enough"),
    Wrong("the ridge upside down", ((ENOUGH, ENOUGH.replace("tflops / gbps", "gbps / tflops")),), "too_large", ""),
    Wrong("one stage counted", ((STAGES, STAGES.replace("num_stages * ", "")),), "smem", "stages"),
    Wrong("one tile counted", ((STAGES, STAGES.replace("(block_m + block_n)", "block_m")),), "smem", "+"),
    Wrong(
        "numbers counted, not bytes", ((STAGES, STAGES.replace(" * itemsize", "")),), "smem", "bytes of shared memory"
    ),
    Wrong("full to the brim refused", ((FITS, FITS.replace("<= smem", "< smem")),), "not_the_best", ""),
    Wrong("registers forgotten", ((FITS, "return stages_bytes <= smem_bytes"),), "registers", "bytes of registers"),
    Wrong("sums of itemsize bytes", ((FITS, FITS.replace("4 *", "itemsize *")),), "registers", ""),
    Wrong("squares alone", ((TILES, TILES.replace("n <= m", "n == m")),), "not_the_best", "nearer"),
    Wrong("wider than tall", ((TILES, TILES.replace("n <= m", "n >= m")),), "turned", "longer side"),
    Wrong("the largest that reaches it", ((BEST, BEST.replace("min(", "max(")),), "too_large", ""),
    Wrong("the most FLOP per byte in any case", ((BEST, OTHERWISE),), "too_large", ""),
    Wrong(
        "the smallest when none reaches it",
        ((OTHERWISE, "return min(tiles, key=intensity)"),),
        "not_the_best",
        "nearer",
    ),
    Wrong("always the same", ((ENOUGH, "return 128, 128\n    enough = []"),), "too_large", ""),
    Wrong("a side of 512", ((ENOUGH, "return 512, 16\n    enough = []"),), "no_tile", "512"),
]
