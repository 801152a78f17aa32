"""Wrong answers to 09.5, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

RANGE = "range(1, num_tiles + 1)"
TILES = "tiles = -(-num_tiles // num_splits)"
SKIP = "if (num_splits - 1) * tiles >= num_tiles:"
BLOCKS = "blocks = num_pairs * num_splits"
WAVES = "waves = -(-blocks // num_slots)"
BUSY = "busy[num_splits] = blocks / (waves * num_slots)"
CHOSEN = "return min(n for n, efficiency in busy.items() if efficiency >= 0.85 * max(busy.values()))"

ANSWERS = [
    Wrong("the best", ((CHOSEN, "return max(busy, key=busy.get)"),), "best_not_enough", "85 % as good"),
    Wrong(
        "85 % of all slots",
        ((CHOSEN, CHOSEN.replace(" * max(busy.values())", "").replace("items() if", "items() if n == max(busy) or")),),
        "not_of_the_best",
        "the best",
    ),
    Wrong("80 %", ((CHOSEN, CHOSEN.replace("0.85", "0.8")),), "percent", "0.85"),
    Wrong("the largest that is good enough", ((CHOSEN, CHOSEN.replace("min(", "max(")),), "largest", "smallest"),
    Wrong("splits without a tile", ((SKIP, "if False:"),), "empty_splits", "without a tile"),
    Wrong("tiles rounded down", ((TILES, "tiles = num_tiles // num_splits"),), "empty_splits", "without a tile"),
    Wrong("greater, not at least", ((SKIP, SKIP.replace(">=", ">")),), "empty_splits", "exactly past"),
    Wrong("only divisors", ((SKIP, "if num_tiles % num_splits:"),), "only_divisors", "may have fewer"),
    Wrong("waves rounded down", ((WAVES, "waves = max(blocks // num_slots, 1)"),), "no_waves", "not down"),
    Wrong(
        "waves as a fraction",
        ((WAVES, "waves = blocks / num_slots"), (BUSY, "busy[num_splits] = round(blocks / (waves * num_slots), 6)")),
        "never_split",
        "rounded",
    ),
    Wrong("one wave at most", ((BUSY, "busy[num_splits] = min(blocks / num_slots, 1.0)"),), "no_waves", "round blocks"),
    Wrong(
        "the last wave alone",
        ((BUSY, "busy[num_splits] = (blocks % num_slots or num_slots) / num_slots"),),
        "last_wave_alone",
        "full ones",
    ),
    Wrong("pairs forgotten", ((BLOCKS, "blocks = num_splits"),), "pairs_forgotten", "times as many"),
    Wrong("one wave of blocks", ((CHOSEN, "return max(num_slots // num_pairs, 1)"),), "fill_once", "more splits than"),
    Wrong(
        "one wave, capped",
        ((CHOSEN, "return min(max(num_slots // num_pairs, 1), num_tiles)"),),
        "fill_once",
        "far from full",
    ),
    Wrong(
        "one wave and a little",
        ((CHOSEN, "return min(-(-num_slots // num_pairs), num_tiles)"),),
        "fill_once",
        "second",
    ),
    Wrong("never split", ((CHOSEN, "return 1"),), "never_split", "never splits"),
    Wrong("num_tiles left out", ((RANGE, "range(1, num_tiles)"),), "exception", ""),
    Wrong(
        "num_tiles left out, one tile repaired", ((RANGE, "range(1, max(num_tiles, 2))"),), "last_left_out", "as well"
    ),
    Wrong(
        "pairs and slots exchanged",
        ((WAVES, "waves = -(-num_slots // blocks)"), (BUSY, "busy[num_splits] = num_slots / (waves * blocks)")),
        "never_split",
        "never splits",
    ),
]
