#!/usr/bin/env bash
# Everything that needs no GPU: first the tests, then every notebook from top to bottom.
# Two workers: most tests compile C++, and a laptop has to stay usable.
set -uo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export COURSE_ENGINE=cpu COURSE_WORK_DIR=$work  # your own answers in work/ are not touched
export COURSE_FAST_LEVEL=-Og  # compiles twice as fast as -O2, which learners run with and one test asks for
unset PYTHONDONTWRITEBYTECODE  # hundreds of processes import the course: it is compiled once
pytest=(.venv/bin/python -m pytest -q -n "${TEST_WORKERS:-2}" --dist loadfile --durations=8 --durations-min=5)
status=0

# every test of a kernel needs the SIMT machine: built while the workers still collect, not while they wait for it
.venv/bin/python -c "from course_lib.grading.processes.child_cuda import build_machine; build_machine()" &

# nbval takes 2 s to import, in each process
"${pytest[@]}" -p no:nbval tests/unit tests/simt tests/grading || status=$?

# Triton's interpreter multiplies with numpy, whose OpenBLAS picks its kernels, and so the order of its sums, by the CPU
solved=tests/grading/test_kill_table.py::test_the_solution_passes_on_other_seeds_and_under_all_schedules
as_on() {  # one process each, side by side: so few tests that starting workers takes longer
    OPENBLAS_CORETYPE=$1 .venv/bin/python -m pytest -q -p no:nbval -p no:xdist \
        tests/unit/test_ops_flash_attention_1_backward.py tests/unit/test_flash_attention.py \
        "$solved[07.5]" "$solved[07.6]" >"$work/$1.txt" 2>&1
}
as_on Haswell & haswell=$!
as_on Nehalem || status=$?
wait $haswell || status=$?
cat "$work/Haswell.txt" "$work/Nehalem.txt"

# nbval runs lectures and solutions; there a check that does not pass raises (COURSE_STRICT)
COURSE_STRICT=1 "${pytest[@]}" -p tests.without_grammars --nbval-lax --nbval-current-env --nbval-cell-timeout=120 \
    --nbval-sanitize-with=tests/notebooks/sanitize.cfg tests/notebooks notebooks solutions || status=$?
exit $status
