#!/bin/bash
# Packages: what `tide new` makes passes its test, as the example that it made does; workers of a package that registers at
# the extension point `meeting` come and go; a plugin of the build is loaded by the
# first use of one of its kernels, and named where it is missing.
. "$(dirname "$0")/harness.sh"

run 0 new package squares
diff -r squares "$root/examples/packages/squares" >diff.txt || { fail "examples/packages/squares is not what tide new makes"; head -20 diff.txt; }
make -s -C squares test TIDE="$TIDE" TIDE_CFLAGS="-I$root/runtime/include -Werror" >out.txt 2>err.txt || fail "its test fails: $(tail -5 err.txt)"
[ "$(grep -c '^ok$' out.txt)" = 2 ] || fail "its test does not run twice"
run 0 new package words
says err.txt '^words/words/words.c$'
! grep -rn squares words || fail "a package has the name of the example"
run 2 new package squares
says err.txt 'squares` is there already'
run 2 new package Wrong-1
says err.txt 'is no name of a package'
run 2 new model x
says err.txt 'must be one of .package.'

cp -r "$root/examples/packages/rounds" rounds
cd rounds
run 0 sim test.lua
says out.txt '^ok$'
run 0 run test.lua
says out.txt '^ok$'
cd ..

cat >use.lua <<'LUA'
local tide = require "tide"
tide.main(function()
  local rows <const> = tide.kernel "lda_top"
  print(type(rows))
end)
LUA
loaded() { LD_DEBUG=files "$TIDE" "$@" 2>&1 | grep -c "calling init:.*/tide_lda.so" || true; }
[ "$(loaded version)" = 0 ] || fail "a plugin is loaded though nothing uses it"
[ "$(loaded run use.lua)" -ge 1 ] || fail "the plugin is not loaded by its first use"
mkdir -p alone
cp "$TIDE" alone/tide
LD_LIBRARY_PATH="" TIDE=$PWD/alone/tide run 1 run use.lua
says err.txt 'the package lda is not installed whole: .*tide_lda.so'
finish
