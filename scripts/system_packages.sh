#!/usr/bin/env bash
# Install with apt what pip cannot: a C++ compiler, Python's venv, and what the tests need (a browser, a sandbox).
# Asks for sudo when you are not root, and touches nothing when everything is there.
set -euo pipefail

packages=(python3-venv python3-dev make g++ bubblewrap chromium)

if ! command -v apt-get >/dev/null; then
    echo "make system-packages knows apt only; please install these with your package manager: ${packages[*]}" >&2
    exit 1
fi

installed() { dpkg-query --show --showformat='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

missing=()
for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "System packages are all there: ${packages[*]}"
    exit 0
fi

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
echo "Installing system packages: ${missing[*]}"
"${as_root[@]}" apt-get update --quiet
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${missing[@]}"
