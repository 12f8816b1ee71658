#!/bin/bash
# Word vectors: they find the topics of a generated text, the files are what word2vec writes.
. "$(dirname "$0")/harness.sh"

value() { sed -n "s/.*\"$1\": *\\([-0-9.e]*\\).*/\\1/p" out.txt; }
more() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }
train() { run 0 run "$root/examples/word2vec.lua" --json "$@"; }

train --data generated --nodes 2 --text vectors.txt --binary vectors.bin --save tables
more "$(value purity)" 0.7 || fail "topic purity $(value purity)"
nothing_left
[ "$(head -1 vectors.txt)" = "10001 100" ] || fail "the text file begins with $(head -1 vectors.txt)"
[ "$(wc -l <vectors.txt)" = 10002 ] || fail "the text file has $(wc -l <vectors.txt) lines"
awk 'NR > 1 && NF != 101 { exit 1 }' vectors.txt || fail "a line of the text file has not a word and 100 numbers"
python3 - <<'PYTHON' || fail "the binary file is not the text file"
text = open("vectors.txt").read().splitlines()[1:]
import struct
data = open("vectors.bin", "rb").read()
at = data.index(b"\n") + 1
for line in text:
    word, *numbers = line.split(" ")
    stop = data.index(b" ", at)
    assert data[at:stop].decode() == word, word
    row = struct.unpack_from("<100f", data, stop + 1)
    assert all(abs(x - float(n)) <= 1e-5 * max(1e-3, abs(x)) for x, n in zip(row, numbers)), word
    at = stop + 1 + 400 + 1
assert at == len(data)
PYTHON
for sampling in naive local; do
    train --data generated --nodes 2 --sampling $sampling
    more "$(value purity)" 0.7 || fail "topic purity $(value purity) with $sampling"
done
nothing_left
[ -s tables.input.safetensors ] && [ -s tables.output.safetensors ] || fail "the tables were not saved"

printf 'the cat sat\nthe dog sat\n' >small.txt
run 0 run "$root/examples/word2vec.lua" --data small.txt --min-count 1 --nodes 1 --epochs 1 --nearest cat,unicorn
says out.txt 'small.txt: 8 tokens, 5 words'
says out.txt '^cat  '
run 2 run "$root/examples/word2vec.lua" --data small.txt --nodes 1
says err.txt 'min_count'
run 1 run "$root/examples/word2vec.lua" --data nowhere.txt --nodes 1
says err.txt 'nowhere.txt'
printf 'a\nb\0c\n' >nul.txt
run 1 run "$root/examples/word2vec.lua" --data nul.txt --min-count 1 --nodes 1
says err.txt 'nul.txt:2'
nothing_left
finish
