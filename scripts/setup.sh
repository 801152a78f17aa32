#!/usr/bin/env bash
# Make .venv and install the course with its pinned packages; does nothing when that is already done.
# An install that was interrupted is noticed by its marker and started afresh.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
stamp=$venv/.installed
marker=$venv/.installing
folder=$venv/.folder  # its programs begin with this path, so an environment cannot move
key=$(cat pyproject.toml constraints.txt scripts/setup.sh course_lib/labextension/*.json course_lib/labextension/static/* | cksum)

say() { echo "[setup] $*"; }
stop() { echo "[setup] $*" >&2; exit 1; }

version_fits() { "$1" -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $2))" 2>/dev/null; }
has_venv() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }

# Built with a profile, it runs a tenth faster than one that pyenv compiled; on macOS it is a stub that asks for Xcode.
system_python() { [ "$(uname -s)" != Linux ] || echo /usr/bin/python3; }

find_python() {
    local candidate newest need
    local candidates=${PYTHON:-${SYSTEM_PYTHON-$(system_python)} python3 python3.13 python3.12 python3.11}
    for newest in 13 99; do  # what was tested comes before what is newer
        for need in has_venv true; do
            for candidate in $candidates; do
                if version_fits "$candidate" "$newest" && "$need" "$candidate"; then
                    echo "$candidate"
                    return
                fi
            done
        done
    done
    stop "The course needs Python 3.11 or newer, and found none: install it (Debian 12, Ubuntu 24.04: sudo apt install" \
         "python3 python3-venv; Ubuntu 22.04: sudo apt install python3.11 python3.11-venv)," \
         "or name one: make lab PYTHON=/path/to/python3.12"
}

has_nvidia_driver() {
    [ -e /proc/driver/nvidia/version ] || [ -e /usr/lib/wsl/lib/libcuda.so.1 ] || nvidia-smi -L >/dev/null 2>&1
}

cpu_index=https://download.pytorch.org/whl/cpu
cpu_index_answers() {  # a few seconds decide; a name server that does not answer counts as no
    timeout 6 "$venv/bin/python" -c \
        "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=4)" "$cpu_index/torch/" >/dev/null 2>&1
}

check_compiler() {
    command -v "${CXX:-g++}" >/dev/null || command -v clang++ >/dev/null || command -v c++ >/dev/null ||
        stop "No C++ compiler found, which runs CUDA kernels where there is no GPU; install one with sudo apt install g++" \
             "(Debian, Ubuntu), xcode-select --install (macOS) or conda install cxx-compiler (conda)."
}

make_venv() {
    local python
    python=$(find_python)
    has_venv "$python" ||
        stop "Python's venv module is missing; install it with: sudo apt install python3-venv"
    say "making $venv with $("$python" --version) ($python)"
    "$python" -m venv --clear "$venv"
    echo "$PWD" >"$folder"
}

install_course() {
    local extra=()
    if [ "$(uname -s)" = Linux ] && ! has_nvidia_driver; then
        if cpu_index_answers; then
            extra=(--extra-index-url "$cpu_index")
            say "no NVIDIA driver here: taking torch's CPU build"
        else
            say "no NVIDIA driver here, and PyTorch's CPU index does not answer: taking the torch of pip's own index (on PyPI a CUDA build of several GB)"
        fi
    fi
    say "installing; about 2.5 GB on disk, one to ten minutes by the speed of your line"
    # torch is in the same command as all others: without its pin another package would pull a CUDA build of several GB
    local packages=("${extra[@]+"${extra[@]}"}" --constraint constraints.txt "$(grep '^torch==' constraints.txt)" --editable ".[dev]")
    install_with_uv "${packages[@]}" || "$venv/bin/python" -m pip install --disable-pip-version-check --no-compile "${packages[@]}"
}

# uv takes a third of pip's time. Where it cannot be had, or does not understand a setting of pip's, pip does it.
install_with_uv() {
    local cache=$venv/.uv_cache status=0  # beside the packages, which become hard links into it
    "$venv/bin/python" -m pip install --disable-pip-version-check --quiet uv >/dev/null 2>&1 || return
    settings_of_pip
    "$venv/bin/python" -m uv pip install --quiet --python "$venv/bin/python" --cache-dir "$cache" \
        --index-strategy unsafe-best-match "$@" || status=$?
    rm -rf "$cache"
    [ $status -eq 0 ] || say "uv could not install the packages: pip tries now"
    return $status
}

# Where pip takes packages from, under uv's names; what is set for uv stays.
settings_of_pip() {
    local all
    all=$("$venv/bin/python" -m pip config list 2>/dev/null) || return 0
    pass_on UV_DEFAULT_INDEX index-url " " "$all"
    pass_on UV_INDEX extra-index-url " " "$all"
    pass_on UV_FIND_LINKS find-links , "$all"
    pass_on SSL_CERT_FILE cert " " "$all"
}

pass_on() {  # name of uv's variable, of pip's setting, what uv puts between two values, lines of pip config list
    local value
    value=$(sed -n "s/^[^.]*\\.$2='\\(.*\\)'\$/\\1/p" <<<"$4" | tail -n 1 | sed 's/\\n/ /g; s/^ *//')
    [ -z "$value" ] || [ -n "${!1:-}" ] || export "$1=${value// /$3}"
}

check_folder() {  # pip's programs begin with their path, where it has a space in double quotes of a shell
    case $PWD in
        *:* | *" "*[\"\$\`\\]* | *[\"\$\`\\]*" "*)
            stop "The course is in $PWD, and programs of a Python environment do not start from a folder whose path" \
                'holds a colon, or besides a space one of " $ ` \: move or rename it.' ;;
    esac
}

moved() { [ -f "$folder" ] && [ "$(cat "$folder")" != "$PWD" ]; }

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$key" ] && ! moved; then
    exit 0
fi
check_compiler
check_folder
if [ -e "$marker" ] || moved || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    make_venv
fi
touch "$marker"
rm -f "$stamp"
started=$SECONDS
install_course
# JupyterLab's first screen is the course, not a question about news
mkdir -p "$venv/share/jupyter/lab/settings"
echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}' >"$venv/share/jupyter/lab/settings/overrides.json"
# its extension: cells of CUDA are edited as C++
mkdir -p "$venv/share/jupyter/labextensions"
rm -rf "$venv/share/jupyter/labextensions/attention-kernel-by-kernel"
cp -r course_lib/labextension "$venv/share/jupyter/labextensions/attention-kernel-by-kernel"
echo "$key" >"$stamp"
rm -f "$marker"
say "ready after $((SECONDS - started)) s"
