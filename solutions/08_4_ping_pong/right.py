"""Right answers to 08.4: turns passed on in other ways."""

from course_lib.grading.exercise.submissions import Right

OWN = "const int own_turn = 1 + consumer, next_turn = 1 + (consumer + 1) % NUM_CONSUMERS;  // 0 is __syncthreads"
FIRST = "if (is_last && max_steps > 0) named_barrier_arrive(next_turn, 2 * CONSUMER_THREADS);  // consumer 0 begins\n"
ROUND = "for (int round = 0; round < max_steps; ++round) {"
WAIT = "named_barrier_sync(own_turn, 2 * CONSUMER_THREADS);"
TURN = "if (round < num_steps[consumer]) number = take_turn(shared, log, consumer, round, thread, number);"
LEFT = "const bool someone_waits = !is_last || round + 1 < max_steps;"
PASS_ON = "if (someone_waits) named_barrier_arrive(next_turn, 2 * CONSUMER_THREADS);"
WORKS = "if (round < num_steps[consumer]) number = work(number, round);"

NEXT_ONE = """\
int next = consumer, next_round = round;
        do {
            if (++next == NUM_CONSUMERS) { next = 0; ++next_round; }
        } while (next_round < max_steps && num_steps[next] <= next_round);
        waits = next != consumer;
        if (waits && next_round < max_steps) named_barrier_arrive(1 + next, 2 * CONSUMER_THREADS);"""

ANSWERS = [
    Right("consumer 0 does not wait for its first turn", ((FIRST, ""), (WAIT, f"if (consumer + round > 0) {WAIT}"))),
    Right(
        "the highest barriers, downwards",
        ((OWN, "const int own_turn = 15 - consumer, next_turn = is_last_of_all(consumer) ? 15 : 14 - consumer;"),
         ("// What a consumer does between", "__device__ bool is_last_of_all(int consumer) { return consumer + 1 == "
          "NUM_CONSUMERS; }\n\n// What a consumer does between")),
    ),
    Right(
        "barriers in turn from round to round",
        (
            (FIRST, FIRST.replace("next_turn", "1")),
            (OWN, "const int next = (consumer + 1) % NUM_CONSUMERS;"),
            (WAIT, WAIT.replace("own_turn", "1 + 2 * consumer + round % 2")),
            (PASS_ON, PASS_ON.replace("next_turn", "1 + 2 * next + (round + is_last) % 2")),
        ),
    ),
    Right(
        "consumers without a step are left out",
        (
            (FIRST, "int first = 0;\n    while (max_steps > 0 && num_steps[first] == 0) ++first;\n    bool waits = "
             "consumer != first;\n"),
            (ROUND, ROUND.replace("max_steps", "num_steps[consumer]")),
            (WAIT, f"if (waits) {WAIT}"),
            (TURN, "number = take_turn(shared, log, consumer, round, thread, number);"),
            (LEFT, NEXT_ONE),
            (PASS_ON, ""),
            (WORKS, "number = work(number, round);"),
        ),
    ),
    Right(
        "turns numbered, fifteen barriers in turn",
        (
            (OWN, "const int total = max_steps * NUM_CONSUMERS;"),
            (FIRST, ""),
            (WAIT, "const int turn = round * NUM_CONSUMERS + consumer;\n        "
             f"if (turn > 0) {WAIT.replace('own_turn', '1 + turn % 15')}"),
            (LEFT, "const bool someone_waits = turn + 1 < total;"),
            (PASS_ON, PASS_ON.replace("next_turn", "1 + (turn + 1) % 15")),
        ),
    ),
    Right(
        "consumers that begin, go on and end in branches of their own",
        (
            (FIRST, ""),
            (WAIT, f"if (round > 0 || consumer > 0) {WAIT}"),
            (LEFT, "const bool is_end = round == max_steps - 1 && is_last;"),
            (PASS_ON, PASS_ON.replace("someone_waits", "!is_end")),
            (WORKS, "if (is_end && round >= num_steps[consumer]) break;\n        " + WORKS),
        ),
    ),
    Right(
        "one loop over all turns",
        (
            (ROUND, "for (int turn = consumer; turn < max_steps * NUM_CONSUMERS; turn += NUM_CONSUMERS) {\n        "
             "const int round = turn / NUM_CONSUMERS;"),
            (LEFT, "const bool someone_waits = turn + 1 < max_steps * NUM_CONSUMERS;"),
        ),
    ),
]  # fmt: skip
