# docs/guides/cli.md: return {nodes = 4, workers = 2, timeout = "10m"}
mkdir -p config/tide
cp block.lua config/tide/config.lua
tide config --plain | tee said.txt
grep -Eq 'nodes.*4' said.txt
grep -Eq 'workers.*2' said.txt
