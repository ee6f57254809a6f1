#!/usr/bin/env bash
# Layout, clang-tidy, ruff and mypy over what git tracks. Fails if one complains.  usage: tools/lint.sh BUILD-FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${1:-} == --help ]]; then sed -n '2s/^# //p' "$0" && exit 0; fi
build=${1:?BUILD-FOLDER is missing}
jobs=$(nproc)
cache=${AUTOTRITON_CACHE:-$HOME/.cache/autotriton}
environment_of() { echo "$cache/$2-$(sha256sum "$1" | cut -c1-12)"; }
lint=$(environment_of worker/requirements-dev.lock lint)/bin
python=${AUTOTRITON_PYTHON:-$(environment_of worker/requirements.lock python)/bin/python}

failed=0
step() {
  echo "lint: $1"
  shift
  "$@" || failed=1
}

mapfile -t all < <(git ls-files 'src/*.cpp' 'src/*.h' 'tests/*.cpp' 'bench/*.cpp')
mapfile -t sources < <(git ls-files 'src/*.cpp' | grep -v '_test\.cpp$')
mapfile -t python_files < <(git ls-files ':(glob)worker/*.py' ':(glob)integrations/*.py' ':(glob)tools/*.py' ':(glob)tests/*.py' ':(glob)bench/*.py')
[[ -e $build/compile_commands.json ]] || cmake -S . -B "$build" -G Ninja >/dev/null

tidy() { printf '%s\0' "${sources[@]}" | xargs -0 -P "$jobs" -n 4 clang-tidy-16 -p "$build" --quiet 2> >(grep -v 'warnings generated' >&2); }

step clang-format clang-format --dry-run -Werror "${all[@]}"
step clang-tidy tidy
step ruff "$lint/ruff" check --quiet "${python_files[@]}"
if compgen -G 'worker/*.py' >/dev/null; then
  step mypy env MYPYPATH=worker "$lint/mypy" --python-executable "$python" --cache-dir build/mypy worker integrations
fi
exit $failed
