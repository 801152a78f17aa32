#!/usr/bin/env bash
# Install with apt what pip cannot: a C++ compiler, Python's venv, and what the tests need (a sandbox, a browser, Arm).
# Asks for sudo when you are not root, and touches nothing when everything is there.
set -euo pipefail

packages=(python3-venv python3-dev make g++ bubblewrap g++-aarch64-linux-gnu qemu-user)
browsers=(chromium chromium-browser google-chrome)

if ! command -v apt-get >/dev/null; then
    echo "make system-packages knows apt only; please install with your package manager: ${packages[*]} chromium" >&2
    exit 1
fi

installed() { dpkg-query --show --showformat='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }
has_browser() {
    local name
    for name in "${browsers[@]}"; do command -v "$name" >/dev/null && return; done
    return 1
}

missing=()
for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ] && has_browser; then
    echo "System packages are all there: ${packages[*]} and a browser"
    exit 0
fi

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
apt_get() { ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get --quiet "$@"; }

apt_get update
if ! has_browser; then
    if apt-cache show chromium >/dev/null 2>&1; then
        missing+=(chromium)
    else  # Ubuntu has it as a snap only
        echo "apt has no chromium here; the browser test of make test needs one: .venv/bin/playwright install --with-deps chromium"
    fi
fi
[ ${#missing[@]} -eq 0 ] || echo "Installing system packages: ${missing[*]}"
[ ${#missing[@]} -eq 0 ] || apt_get install --yes --no-install-recommends "${missing[@]}"
