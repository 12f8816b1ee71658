#!/bin/bash
# Matrix factorisation by blocks: it learns, and the factors do not depend on who does which block.
. "$(dirname "$0")/harness.sh"

value() { sed -n "s/.*\"$1\": *\\([-0-9.e]*\\).*/\\1/p" out.txt; }
more() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }
train() { run 0 run "$root/examples/mf.lua" --epochs 2 --rank 20 --blocks 4 --json "$@"; }

# Four blocks a side: one worker that does all of them in turn, and four that do them at once; rows that stay, and rows
# that move (their files also have columns that no cell is in, since those moved too: they are compared with each other).
for layout in 1x1 1x4 4x1 2x2 2x1-relocate 4x1-relocate; do
    nodes=${layout%%x*} workers=${layout#*x} technique=static
    case $layout in *-relocate) workers=${workers%-*} technique=relocate ;; esac
    train --generate mf100k --nodes "$nodes" --workers "$workers" --technique $technique --save "$layout.safetensors"
    cmp 1x1.rows.safetensors "$layout.rows.safetensors" || fail "$layout: other rows than 1x1"
    like=1x1
    [ $technique = static ] || like=2x1-relocate
    cmp $like.columns.safetensors "$layout.columns.safetensors" || fail "$layout: other columns than $like"
    nothing_left
done
train --generate mf100k --nodes 1 --seed 2 --save other.safetensors
cmp -s 1x1.rows.safetensors other.rows.safetensors && fail "another seed gives the same factors"
run 1 run "$root/examples/mf.lua" --blocks 3 --nodes 2
says err.txt '3 blocks cannot be shared by 2 workers'
run 2 run "$root/examples/mf.lua" --blocks 0 --nodes 2
says err.txt 'matrix: blocks = 0 is no whole number of 1 or more'
nothing_left

# Without blocks: one worker's factors do not depend on where rows live, and several workers learn, however columns come.
for order in columnwise plain; do
    for technique in static relocate replicate intent; do
        run 0 run "$root/examples/mf.lua" --nodes 1 --epochs 2 --order $order --technique $technique \
            --save $order-$technique.safetensors
        for table in rows columns; do
            cmp $order-static.$table.safetensors $order-$technique.$table.safetensors ||
                fail "$order: other $table with $technique than with static"
        done
        run 0 run "$root/examples/mf.lua" --nodes 2 --epochs 14 --order $order --technique $technique --json
        more 0.3 "$(value rmse)" || fail "$order, $technique: test RMSE $(value rmse) after 14 epochs"
        nothing_left
    done
done
cmp -s columnwise-static.rows.safetensors plain-static.rows.safetensors && fail "both orders give the same factors"
run 1 run "$root/examples/mf.lua" --technique intent
says err.txt 'blocks never share a column, so there is nothing to copy: --technique static or relocate'
run 1 run "$root/examples/mf.lua" --order columnwise --group 0 --nodes 1
says err.txt 'a group has 1 cell or more'
run 1 run "$root/examples/mf.lua" --nodes 2 --order plain --technique replicate --epochs 6 --eps 30
says err.txt 'the loss has run away; try a smaller --eps'
nothing_left

# The blocks: an epoch has every cell once, and each block has the same cells, in an order of the same seed, whoever does
# it (rotation_spec.lua has the order of blocks).
cat >blocks.lua <<'LUA'
local tide = require "tide"
local data = tide.data.matrix(tide.data.generate {rows = 50, columns = 31, train = 600, test = 60, rank = 2, seed = 4},
  {blocks = 6})
local function keys_in(keys)
  local set = {}
  for _, key in ipairs(keys:totable()) do set[key] = true end
  return set
end
local function epoch_of(workers, epoch, seed)
  local cells, blocks = {}, {}
  for rank = 1, workers do
    local passed = {done = function() return true end, wait = function() return {} end}
    local w = {rank = rank, seed = seed, barrier = function() return passed end}
    local own, n = data:cut(rank, workers), 0
    local row_keys = keys_in(own:row_keys())
    for block in own:rotation(w):epoch(epoch) do
      n = n + 1
      local columns = keys_in(block.col_keys)
      for i = 1, #block.values do
        local row, column = block.cells[2 * i - 1], block.cells[2 * i]
        assert(row_keys[row] and columns[column] and row // 9 == block.row and column // 6 == block.column)
        cells[#cells + 1] = row * 31 + column
      end
      blocks[#blocks + 1] = ("%d %d %d"):format(block.row, block.column, block.seed)
    end
    assert(n == 36 // workers)
  end
  table.sort(cells)
  for i = 2, #cells do assert(cells[i] ~= cells[i - 1]) end
  table.sort(blocks)
  return #cells, table.concat(blocks, ",")
end
tide.main(function()
  local count, blocks = epoch_of(1, 1, 7)
  assert(count == data.count and count == 600)
  for _, workers in ipairs {2, 3, 6} do
    local n, b = epoch_of(workers, 1, 7)
    assert(n == count and b == blocks)
  end
  assert(select(2, epoch_of(1, 2, 7)) ~= blocks and select(2, epoch_of(1, 1, 8)) ~= blocks)
  local tested = 0
  for rank = 1, 3 do
    for strip in data:cut(rank, 3):strips "test" do tested = tested + #strip.values end
  end
  assert(tested == 60)
  print "every cell once"
end)
LUA
run 0 run blocks.lua
says out.txt 'every cell once'

# The generated matrix can be recovered: noise 0.1 is the floor, predicting the mean gives 1.
run 0 run "$root/examples/mf.lua" --nodes 2 --epochs 25 --json
more 0.2 "$(value rmse)" || fail "test RMSE $(value rmse) after 25 epochs"
run 0 run "$root/examples/mf.lua" --nodes 2 --epochs 1
says out.txt 'epoch  1  loss [0-9.]+  train RMSE [0-9.]+  test RMSE [0-9.]+'
says out.txt 'what next'

# A step size that blows up is taken back and halved until it works.
run 0 run "$root/examples/mf.lua" --nodes 2 --epochs 25 --eps 30
says out.txt 'taken back'
more 1 "$(sed -n 's/.*best \([0-9.]*\) after.*/\1/p' out.txt)" || fail "the bold driver does not recover"

# A matrix is cut into as many blocks as fit the caches, but not so fine that a row has hardly a cell in a block.
cat >blocks.lua <<'LUA'
local tide = require "tide"
tide.main(function()
  for _, cells in ipairs {100000, 200000} do
    local matrix = tide.data.generate {rows = 10000, columns = 10000, train = cells, test = 10, rank = 1, seed = 1}
    print(cells .. " cells: " .. tide.data.ratings(matrix, {row_bytes = 400}):cut(1, 2).blocks .. " blocks")
  end
end)
LUA
run 0 run blocks.lua
says out.txt '100000 cells: 2 blocks'
says out.txt '200000 cells: 4 blocks'

# Files: ratings in a file, a matrix in a directory, and what is wrong with them.
awk 'BEGIN { srand(3); print "userId,movieId,rating"
             for (u = 0; u < 60; u++) for (m = 0; m < 40; m++) if (rand() < 0.5)
                 printf "u%d,m%d,%.1f\n", u, m, 3 + (u % 3 - 1) * (m % 2 ? 1 : -1) }' >ratings.csv
run 0 run "$root/examples/mf.lua" --data ratings.csv --rank 4 --lambda 0.5 --nodes 2 --epochs 40 --eps 0.03
says out.txt '^data: ratings.csv \(ratings separated by commas, after a header\): 60 x 40, '
more 0.4 "$(sed -n 's/^test RMSE \([0-9.]*\),.*/\1/p' out.txt)" || fail "ratings are not learned"
mkdir matrix
printf '%%%%MatrixMarket matrix coordinate real general\n3 2 4\n1 1 1\n2 2 -1\n3 1 2\n1 2 0\n' >matrix/train.mtx
printf '%%%%MatrixMarket matrix coordinate real general\n3 2 1\n3 2 1\n' >matrix/test.mtx
run 0 run "$root/examples/mf.lua" --data matrix --rank 2 --nodes 1 --epochs 2
says out.txt '3 x 2, 4 cells to train on, 1 held out'
printf '%%%%MatrixMarket matrix coordinate real general\n3 2 1\n4 2 1\n' >matrix/test.mtx
run 1 run "$root/examples/mf.lua" --data matrix --nodes 1
says err.txt 'matrix/test.mtx:3'
says err.txt "a row from 1 to the number of rows, found '4'"
nothing_left
finish
