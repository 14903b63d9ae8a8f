#!/usr/bin/env bash
# Makes the virtual environment that every other verb uses. Does nothing when it is already right.
# KERNELS=later leaves the kernels to `make kernels`, for who has something else to do meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }

wanted=$(cat requirements.lock pyproject.toml | sha256sum | cut -d' ' -f1)
if [ -f .venv/.installed ] && [ "$(cat .venv/.installed)" = "$wanted" ]; then
  exit 0
fi

python=${PYTHON:-python3}
command -v "$python" >/dev/null || { echo "No $python found. Install Python 3.11 or newer, or set PYTHON=/path/to/python." >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "$("$python" --version) is too old: muster needs Python 3.11 or newer. Set PYTHON=/path/to/a/newer/python." >&2; exit 1; }

if [ ! -x .venv/bin/python ]; then
  say "creating a virtual environment in .venv"
  if ! "$python" -m venv .venv 2>/dev/null; then
    # Debian and Ubuntu ship Python without venv.
    say "python has no venv module: installing the system package python3-venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      apt-get update -qq && apt-get install -y -qq python3-venv
      rm -rf .venv && "$python" -m venv .venv
    else
      echo "Install your system's package for Python virtual environments (python3-venv), then try again." >&2; exit 1
    fi
  fi
fi

say "installing the locked dependencies (about a minute the first time)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check "uv==0.13.7"
.venv/bin/uv pip sync --system-certs --quiet --python .venv/bin/python requirements.lock
.venv/bin/uv pip install --system-certs --quiet --python .venv/bin/python --no-deps --editable .
if [ "${KERNELS:-now}" = now ]; then
  say "compiling the engine's kernels (half a minute, once)"
  # Whoever starts muster outside make and does not set this compiles into a folder beside the sources.
  NUMBA_CACHE_DIR=${NUMBA_CACHE_DIR:-$PWD/.muster/numba} .venv/bin/muster kernels 2>/dev/null
fi
echo "$wanted" > .venv/.installed
say "ready: $(.venv/bin/muster --version)"
