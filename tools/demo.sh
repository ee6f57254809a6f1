#!/usr/bin/env bash
# Judges the examples and shows each verdict. Fails if one is not what examples/README.md says.  usage: tools/demo.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${1:-} == --help ]]; then sed -n '2s/^# //p' "$0" && exit 0; fi

failed=0
# judge EXIT-CODE WHAT OPTION FILE: exit code 0 is accept, 1 is reject.
judge() {
  local expected=$1 what=$2 code=0
  printf '\n\033[1m%s\033[0m\n$ ./autotriton verify --problem examples/softmax.py %s %s\n' "$what" "$3" "$4"
  ./autotriton verify --problem examples/softmax.py "$3" "$4" || code=$?
  if [[ $code -ne $expected ]]; then
    echo "demo: exit code $code where $expected was expected" >&2
    failed=1
  fi
}

judge 0 "A good answer" --candidate examples/answer.py
judge 1 "PyTorch does the work, a kernel only copies" --candidate examples/cheat.py
judge 1 "A kernel with a slip in its mask" --candidate examples/wrong.py
judge 0 "A raw reply with reasoning and a draft in it" --answer examples/reply.md
exit $failed
