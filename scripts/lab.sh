#!/usr/bin/env bash
# Open JupyterLab at the first chapter; without a display print the address instead of starting a browser.
set -euo pipefail
cd "$(dirname "$0")/.."

first=$(find notebooks -maxdepth 1 -name '[0-9][0-9]*_*.ipynb' | sort | head -n 1)
options=(--log-level=WARN)  # the address is printed all the same
if [ "$(uname -s)" = Linux ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] && ! grep -qi microsoft /proc/version; then
    options+=(--no-browser)
    echo "No display here: open the address that JupyterLab prints below."
fi
[ "$(id -u)" -ne 0 ] || options+=(--allow-root)  # in a container
[ -z "$first" ] || options+=("--LabApp.default_url=/lab/tree/$first")
bash scripts/trust.sh
exec .venv/bin/jupyter lab "${options[@]}"
