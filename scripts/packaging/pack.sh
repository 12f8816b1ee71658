#!/usr/bin/env bash
# pack.sh BUILD-DIRECTORY [options of cpack]: makes BUILD-DIRECTORY/packages/*.deb. Owner, order and times of what is packed
# depend on the sources alone.
set -euo pipefail
build=$(cd "$1" && pwd)
shift
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:?set it to the time that files shall have} LC_ALL=C TZ=UTC
umask 022
rm -rf "$build/packages" "$build/_CPack_Packages"
mkdir "$build/packages"
(cd "$build" && cpack -G DEB -B "$build/packages" "$@" >"$build/pack.log" 2>&1) || { cat "$build/pack.log" >&2; exit 1; }
rm -rf "$build/packages/_CPack_Packages"
ls "$build/packages"
