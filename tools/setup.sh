#!/usr/bin/env bash
# Brings what the build and the workers need, and nothing that is there already. See --help.
set -euo pipefail

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'TEXT'
usage: tools/setup.sh [--lint] [--fuzz]

Brings, each only if it is missing:
  1. Debian packages: compiler, build tools, C++ libraries (as root; else it prints the one command to run)
  2. the Python environment of the workers: about 3 GB to download, 5 GB on disk, from worker/requirements.lock
  3. the C sources of tree-sitter and its Python grammar
--lint   brings what `make lint` needs besides: clang-format, clang-tidy, mypy, ruff
--fuzz   brings what `make fuzz` needs besides: clang and its libFuzzer

Environment:
  AUTOTRITON_CACHE    where 2 and 3 go (default ~/.cache/autotriton); checkouts share it
  AUTOTRITON_PYTHON   a python that has torch and triton already: it is checked and used, and 2 is left out
pip and apt are used as they are set up on this machine. It can be interrupted and run again at any time.
TEXT
}

lint=no
fuzz=no
for argument in "$@"; do
  case $argument in
    --help | -h) usage && exit 0 ;;
    --lint) lint=yes ;;
    --fuzz) fuzz=yes ;;
    *) echo "setup: no option $argument (see --help)" >&2 && exit 2 ;;
  esac
done

say() { echo "setup: $*"; }
fail() {
  echo "setup: $1" >&2
  echo "setup: $2" >&2
  exit 1
}

# 1. Debian packages.
packages=(
  g++ cmake make ninja-build ccache mold pkg-config git ca-certificates
  python3 python3-venv
  libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libtomlplusplus-dev libseccomp-dev
  libboost1.81-dev prometheus-cpp-dev libhiredis-dev redis-tools libsqlite3-dev
  libgtest-dev libgmock-dev libbenchmark-dev
)
[[ $lint == yes ]] && packages+=(clang-format clang-tidy-16)  # 14, the default, does not know std::source_location
if [[ $fuzz == yes ]]; then packages+=(clang-16 libclang-rt-16-dev); fi

missing_packages() {
  local installed
  # dpkg-query fails if it does not know one of them, which is what we want to find out.
  installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  comm -23 <(printf '%s\n' "${packages[@]}" | sort -u) <(awk '$1 == "ii" { print $2 }' <<<"$installed" | sort -u)
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "this is no Debian, so packages are left to you. The build needs the equivalents of: ${packages[*]}"
    return
  fi
  local names missing
  names=$(missing_packages)
  if [[ -z $names ]]; then return; fi
  mapfile -t missing <<<"$names"
  if [[ $(id -u) -ne 0 ]]; then
    fail "Debian packages are missing: ${missing[*]}" "run  sudo apt-get install --no-install-recommends ${missing[*]}  and then this again"
  fi
  say "installing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  local install=(apt-get install -y -q --no-install-recommends "${missing[@]}")
  # The package lists may be missing or too old; fetch them only then.
  if ! "${install[@]}"; then
    say "that failed; fetching the package lists and trying again"
    apt-get update -q || fail "apt-get update failed (see above)" "check the network and apt's sources"
    "${install[@]}" || fail "apt-get install failed (see above)" "check the message above; a full disk shows as 'No space left'"
  fi
}

# 2. and 3. lie in the cache folder.
if [[ -z ${AUTOTRITON_CACHE:-} && -z ${HOME:-} ]]; then fail "neither AUTOTRITON_CACHE nor HOME is set" "set one of them"; fi
readonly CACHE=${AUTOTRITON_CACHE:-$HOME/.cache/autotriton}

lock_cache() {
  mkdir -p "$CACHE" 2>/dev/null || fail "$CACHE cannot be made" "set AUTOTRITON_CACHE to a folder that you may write to"
  exec 9>"$CACHE/.setup-lock" || fail "$CACHE cannot be written to" "set AUTOTRITON_CACHE to a folder that you may write to"
  if ! flock -n 9; then
    say "another set-up is running; waiting for it"
    flock 9
  fi
}

need_space() { # GB
  local free_kb
  free_kb=$(df -Pk "$CACHE" | awk 'NR == 2 { print $4 }')
  if ((free_kb < $1 * 1000000)); then
    fail "$CACHE has $((free_kb / 1000000)) GB free, and $1 GB are needed" "free some space, or set AUTOTRITON_CACHE to a folder on another disk"
  fi
}

pip_failed() {
  local why="check the network and pip's configuration (\`pip config list\`)"
  if (($(df -Pk "$CACHE" | awk 'NR == 2 { print $4 }') < 500000)); then why="the disk of $CACHE is full: free some space"; fi
  fail "pip could not bring $1 (see above)" "$why, then run this again: what is complete stays"
}

# environment_of LOCKFILE NAME: where the environment for a lock file belongs, keyed by the file's content.
environment_of() { echo "$CACHE/$2-$(sha256sum "$1" | cut -c1-12)"; }

# make_environment LOCKFILE FOLDER WHAT CHECK: a virtual environment knows its own path, so it is made in place, and a
# marker says that it is complete.
make_environment() {
  local lock=$1 folder=$2 what=$3 check=$4
  if [[ -e $folder/.complete ]]; then return; fi
  [[ -e $folder ]] && say "removing the incomplete $folder" && rm -rf "$folder"
  say "making $what in $folder"
  "$base_python" -m venv "$folder" || fail "no virtual environment could be made with $base_python" "check that python3-venv is installed"
  "$folder/bin/pip" install --disable-pip-version-check --no-cache-dir --progress-bar off -q --no-deps -r "$lock" || pip_failed "$what"
  "$folder/bin/python" -c "$check" || fail "$what is there but does not work (see above)" "remove $folder and run this again"
  touch "$folder/.complete"
}

readonly WORKER_CHECK='
import sys, numpy, torch, triton
found = {"torch": torch.__version__.split("+")[0], "triton": triton.__version__, "numpy": numpy.__version__}
wrong = [n for n, prefix in (("torch", "2.11."), ("triton", "3.6.")) if not found[n].startswith(prefix)]
if tuple(map(int, found["numpy"].split(".")[:2])) >= (2, 4): wrong.append("numpy")
if wrong: sys.exit(f"need torch 2.11, triton 3.6 and numpy below 2.4, found {found}")
'

make_worker_environment() {
  if [[ -n ${AUTOTRITON_PYTHON:-} ]]; then
    "$AUTOTRITON_PYTHON" -c "$WORKER_CHECK" || fail "AUTOTRITON_PYTHON=$AUTOTRITON_PYTHON cannot be used (see above)" "name another one, or unset it"
    return
  fi
  local lock=$ROOT/worker/requirements.lock folder
  folder=$(environment_of "$lock" python)
  if [[ ! -e $folder/.complete ]]; then
    need_space 6
    say "the Python environment takes about 3 GB to download and 5 GB on disk (torch and its CUDA libraries)"
  fi
  make_environment "$lock" "$folder" "the Python environment" "$WORKER_CHECK"
}

# fetch_source REQUIREMENT FILE SHA256 FOLDER: an sdist of the package index, checked and unpacked.
fetch_source() {
  local requirement=$1 file=$2 sha256=$3 folder=$CACHE/sources/$4
  if [[ -e $folder/.complete ]]; then return; fi
  say "fetching the sources of $requirement"
  rm -rf "$aside"
  mkdir -p "$aside"
  local name=${requirement%%==*} python
  python=${AUTOTRITON_PYTHON:-$(environment_of "$ROOT/worker/requirements.lock" python)/bin/python}
  "$python" -m pip download --disable-pip-version-check -q --no-deps --no-binary "$name" -d "$aside" "$requirement" || pip_failed "$requirement"
  echo "$sha256  $aside/$file" | sha256sum --check --status || fail "$file is not the file that was expected" "its SHA-256 differs from $sha256: check the package index in use"
  tar -xzf "$aside/$file" -C "$aside" --no-same-owner
  touch "$aside/$4/.complete"
  rm -rf "$folder"
  mv "$aside/$4" "$folder"
}

install_packages
lock_cache
readonly aside=$CACHE/sources/.partial
readonly base_python=$(command -v /usr/bin/python3 || command -v python3)
trap 'rm -rf "$aside"' EXIT
trap 'echo "setup: interrupted; run it again to go on" >&2; exit 130' INT TERM

make_worker_environment
fetch_source tree-sitter==0.23.2 tree-sitter-0.23.2.tar.gz \
  66bae8dd47f1fed7bdef816115146d3a41c39b5c482d7bad36d9ba1def088450 tree-sitter-0.23.2
fetch_source tree-sitter-python==0.23.6 tree_sitter_python-0.23.6.tar.gz \
  354bfa0a2f9217431764a631516f85173e9711af2c13dbd796a8815acfe505d9 tree_sitter_python-0.23.6
if [[ $lint == yes ]]; then
  make_environment "$ROOT/worker/requirements-dev.lock" "$(environment_of "$ROOT/worker/requirements-dev.lock" lint)" "the lint tools" "import mypy"
fi
say "ready (cache: $CACHE)"
