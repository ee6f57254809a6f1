#!/usr/bin/env bash
# Packs the built program into one folder and one file that run on other machines. See --help.
set -euo pipefail

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if [[ ${1:-} == --help || ${1:-} == -h || $# -ne 1 ]]; then
  cat <<'TEXT'
usage: tools/bundle.sh BUILD_FOLDER      (`make bundle` builds first, and calls this)

Makes build/bundle/autotriton-VERSION-linux-x86_64/ and the same as .tar.gz: the program, the shared libraries that it
needs but for the C library's own, and worker/. It runs on x86-64 Linux with glibc 2.36 or later and a Python that has
torch 2.11, triton 3.6 and numpy below 2.4: set AUTOTRITON_PYTHON to that Python, or install worker/requirements.lock
into an environment of its own.
TEXT
  [[ $# -eq 1 ]] && exit 0 || exit 2
fi

fail() {
  echo "bundle: $1" >&2
  exit 1
}

readonly BUILD=$1
[[ -x $BUILD/src/cli/autotriton ]] || fail "$BUILD/src/cli/autotriton is missing: run \`make build\` first"
[[ $(uname -sm) == "Linux x86_64" ]] || fail "bundles are made for x86-64 Linux, and this is $(uname -sm)"

version=$("$BUILD/src/cli/autotriton" --version | awk '{ print $NF }')
readonly name=autotriton-$version-linux-x86_64
readonly out=$ROOT/build/bundle
readonly aside=$out/.partial
trap 'rm -rf "$aside"' EXIT
rm -rf "$aside"
mkdir -p "$aside"

# What `make install` puts into PREFIX/lib/…/autotriton is the folder; the rest of PREFIX is not wanted here.
cmake --install "$BUILD" --prefix "$aside/prefix" --strip >/dev/null
program=$(find "$aside/prefix" -name autotriton -type f -perm -u+x)
readonly folder=$aside/$name
mv "$(dirname "$program")" "$folder"
cp "$ROOT/README.md" "$ROOT/LICENSE" "$folder/"
mkdir "$folder/lib" "$folder/licenses"

# The C library and its loader belong to the machine; everything else comes along, with its licence.
licence_of() { # FILE, as dpkg knows it: before or after /lib became a link to /usr/lib
  local real package
  real=$(readlink -f "$1")
  for file_name in "$real" "${real#/usr}"; do
    package=$(dpkg -S "$file_name" 2>/dev/null | head -1 | cut -d: -f1 || true)
    if [[ -n $package && -e /usr/share/doc/$package/copyright ]]; then
      cp -L "/usr/share/doc/$package/copyright" "$folder/licenses/$package"
      return
    fi
  done
  fail "the licence of $1 was not found: its package has no copyright file"
}

readonly of_glibc='^(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil|libmvec|libanl)\.so'
for file in "$folder/autotriton" "$folder/libautotriton_confine.so"; do
  while read -r library path; do
    [[ $library =~ $of_glibc || $library == libautotriton_* ]] && continue
    [[ -e $folder/lib/$library ]] && continue
    [[ $path == /* ]] || fail "$library, which $(basename "$file") needs, was not found"
    cp -L "$path" "$folder/lib/$library"
    strip --strip-unneeded "$folder/lib/$library"
    licence_of "$path"
  done < <(ldd "$file" | awk '/=>/ { print $1, $3 }')
done

licence_of "$(g++ -print-file-name=libseccomp.a)"  # Within libautotriton_confine.so.

# It must find all of that from any folder, without anything of this machine's.
newest=$(find "$folder" -type f \( -name '*.so*' -o -name autotriton \) -exec objdump -T {} + 2>/dev/null |
  grep -oE 'GLIBC_2\.[0-9]+' | sort -t. -k2 -n -u | tail -1)
(($(cut -d. -f2 <<<"${newest:-GLIBC_2.0}") <= 36)) || fail "the program needs $newest: build it on a machine with glibc 2.36 or older"
mv "$folder" "$aside/moved"
missing=$(ldd "$aside/moved/autotriton" | awk -v here="$aside/moved" '/=>/ && index($3, here) != 1 { print $1 }' | grep -vE "$of_glibc" || true)
[[ -z $missing ]] || fail "not found beside the program: $missing"
"$aside/moved/autotriton" --version >/dev/null || fail "the program does not start from another folder"
mv "$aside/moved" "$folder"

time=$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null || date +%s)
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$time" -C "$aside" -cf - "$name" | gzip -9n >"$aside/$name.tar.gz"
rm -rf "${out:?}/$name"
mv "$folder" "$out/$name"
mv "$aside/$name.tar.gz" "$out/$name.tar.gz"
echo "bundle: $(cd "$ROOT" && realpath --relative-to=. "$out/$name.tar.gz"), $(du -h "$out/$name.tar.gz" | cut -f1), needs ${newest/_/ }"
