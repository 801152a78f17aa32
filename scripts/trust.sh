#!/usr/bin/env bash
# Sign the course's notebooks: what it stores in them, cards and pictures, is then shown at the first open.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/jupyter trust notebooks/*.ipynb exercises/*.ipynb solutions/*.ipynb >/dev/null
