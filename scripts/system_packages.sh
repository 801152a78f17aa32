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

least_gcc=12  # of course_lib/cuda/simt/compilers.py
needs_newer_compiler() {  # Ubuntu 22.04: g++ is 11; the course finds g++-12 beside it
    local major
    major=$(g++ -dumpversion 2>/dev/null | cut -d. -f1)
    [ -n "$major" ] && [ "$major" -lt "$least_gcc" ] && ! installed "g++-$least_gcc"
}

missing=()
for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ] && has_browser && ! needs_newer_compiler; then
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
if needs_newer_compiler; then  # only now: g++ itself may have come with the packages
    if apt-cache show "g++-$least_gcc" >/dev/null 2>&1; then
        echo "g++ here is $(g++ -dumpversion), and the course needs $least_gcc: installing g++-$least_gcc beside it"
        apt_get install --yes --no-install-recommends "g++-$least_gcc"
    else
        echo "g++ here is $(g++ -dumpversion), the course needs $least_gcc, and apt has no g++-$least_gcc: install clang-19 or a newer" \
             "g++ and set COURSE_CXX to it"
    fi
fi
