#!/usr/bin/env bash
# package.sh BUILD SOURCE: packs Debian packages of a build, twice, and compares the bytes; installs them into an empty
# root, where their programs, manual, completions, unit and libraries work; removes them, and nothing is left.
set -euo pipefail
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
for tool in dpkg-deb dpkg-shlibdeps cpack gzip; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is not here"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=1700000000

fail() { echo "not so: $*" >&2; exit 1; }

pack() { "$source/scripts/packaging/pack.sh" "$build" -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip >/dev/null; }
pack
mv "$build/packages" "$work/first"
if [ "${TWICE:-1}" = 1 ]; then
  (umask 077; pack)
  for deb in "$work"/first/*.deb; do
    cmp "$deb" "$build/packages/$(basename "$deb")" || fail "$(basename "$deb") packed again is the same"
  done
fi

# Into an empty root, as another distribution's installer would; what they depend on is the host's.
root=$work/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
: >"$root/var/lib/dpkg/status"
list() { (cd "$root" && find . -path ./var -prune -o -print | sort); }
before=$(list)
dpkg_in() { dpkg --root="$root" --log=/dev/null --force-depends --force-script-chrootless --force-not-root --force-bad-path "$@" >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log"; fail "dpkg $*"; }; }
dpkg_in --install "$work"/first/*.deb
prefix=$root/usr
"$prefix/bin/tide" version >/dev/null || fail "the program runs"
for page in tide tide-run tide-dashboard tide-sim; do
  zcat "$prefix/share/man/man1/$page.1.gz" | grep -q '^\.SH NAME' || fail "there is a manual page $page"
done
if command -v man >/dev/null && command -v groff >/dev/null; then
  problems=$(for page in "$prefix"/share/man/man1/*.gz; do LC_ALL=C.UTF-8 MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null; done)
  [ -z "$problems" ] || fail "groff takes the manual: $problems"
fi
bash -n "$prefix/share/bash-completion/completions/tide" || fail "bash takes its completions"
grep -q dashboard "$prefix/share/zsh/vendor-completions/_tide" || fail "zsh's completions name the commands"
unit=$(find "$root" -name 'tide-node@.service')
[ -n "$unit" ] || fail "there is a unit"
if command -v systemd-analyze >/dev/null; then
  sed "s|^ExecStart=[^ ]*|ExecStart=$prefix/bin/tide|; /^AssertPathExists/d" "$unit" >"$work/tide-node@one.service"
  # The page that it names is not in this machine's own manual.
  problems=$(systemd-analyze verify "$work/tide-node@one.service" 2>&1 | grep "tide-node" | grep -v "Command 'man" || true)
  [ -z "$problems" ] || fail "systemd takes the unit: $problems"
fi
for option in $(sed -n 's/^ExecStart=[^ ]* node \(.*\)$/\1/p' "$unit" | grep -o -- '--[a-z-]*'); do
  "$prefix/bin/tide" node --help | grep -q -- "$option " || fail "tide node knows $option"
done
library=$(find "$root" -name 'libtide-client.so.0')
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
  PYTHONPATH=$prefix/lib/python3/dist-packages TIDE_CLIENT_LIBRARY=$library PYTHONDONTWRITEBYTECODE=1 \
    /usr/bin/python3 -c 'import tide, tide.aio; print(tide.__version__)' >/dev/null || fail "the package for Python is imported"
fi
bash "$source/tests/installed.sh" "$build" "$source" "$prefix"
# shellcheck disable=SC2046
dpkg_in --purge $(sed -n 's/^Package: //p' "$root/var/lib/dpkg/status")
after=$(list)
[ "$before" = "$after" ] || fail "nothing is left: $(diff <(echo "$before") <(echo "$after"))"
echo "ok: packages are the same twice, install, work and go"
