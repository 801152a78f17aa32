#!/usr/bin/env bash
# Everything that needs no GPU: first the tests, then every notebook from top to bottom.
# A few workers only: most tests compile C++, and a laptop has to stay usable.
set -uo pipefail
cd "$(dirname "$0")/.."

export COURSE_ENGINE=cpu
workers=${TEST_WORKERS:-2}
pytest=(.venv/bin/python -m pytest -q -n "$workers" --dist loadfile)
status=0

"${pytest[@]}" tests/unit tests/simt tests/grading || status=$?

# lectures and solutions are run by nbval; a check that does not pass raises (COURSE_STRICT)
COURSE_STRICT=1 "${pytest[@]}" --nbval-lax --nbval-current-env --nbval-cell-timeout=120 \
    --nbval-sanitize-with=tests/notebooks/sanitize.cfg tests/notebooks notebooks solutions || status=$?
exit $status
