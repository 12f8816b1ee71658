#!/bin/bash
# Sparse examples in LibSVM's form: from files, packed or not, and generated; cut over workers without loss.
. "$(dirname "$0")/harness.sh"

cat >rows.lua <<'LUA'
local tide = require "tide"
local made = tide.data.libsvm({generate = {train = 200, test = 20, columns = 40, nonzeros = 6, classes = 4, seed = 3}},
  {labels = "class"})
local files = tide.data.libsvm({train = "train.svm.gz", test = "test.svm"}, {labels = "class", columns = 9})

local function sum(rows)
  local total = 0
  for i = 1, rows:rows() do
    for index, value in rows:row(i) do total = total + (rows.labels[i] + 1) * (index + 1) * value end
  end
  return total
end

local job = tide.job {
  name = "rows", data = made,
  worker = function(w)
    local own, batches = w.data:part "train", 0
    for first, count in w.data:batches("train", 7) do
      assert(own:slice(first + 1, count):dense():rows() == count)
      batches = batches + count
    end
    assert(batches == own:rows() and own:dense(own:rows()):columns() == 40)
    w:report {examples = own:rows(), total = sum(own)}
  end,
}

tide.main(function()
  local train = made:part "train"
  local shuffled = train:copy()
  shuffled:shuffle(5)
  assert(math.abs(sum(shuffled) - sum(train)) < 1e-3 and shuffled:row(1)() ~= nil)
  assert(sum(shuffled:slice(11, 10)) ~= sum(train:slice(11, 10)) and train:entries() == 1200)
  local dense, total = train:dense(2, 3), 0
  for _, value in train:row(3) do total = total + value end
  assert(math.abs(dense:slice(2, 1):sum() - total) < 1e-5)
  print(files.note)
  print(table.concat(files.classes:totable(), " "), files:part "train":dense(1, 1):sum(), #files:part "test".labels)
  local cluster <close> = tide.cluster {nodes = 2, workers = 2}
  local run = cluster:start(job)
  local examples, all = 0, 0
  for r in run:events "report" do examples, all = r.examples, r.total end
  run:wait()
  assert(examples == 200 and math.abs(all - sum(train)) < 1e-3, "workers lose examples")
  print "nothing is lost"
end)
LUA
printf '+1 1:0.5 3:2\n-1\n7 9:1 # last\n' | gzip >train.svm.gz
printf -- '-1 2:1\r\n' >test.svm
run 0 run rows.lua
says out.txt 'nothing is lost'
says out.txt '3 examples to train on, 1 held out, 9 columns, .* 3 classes'
says out.txt '^-1.0 1.0 7.0[[:space:]]2.5[[:space:]]1'

printf -- '-1 2:1\n1 3:1 2:1\n' >test.svm
run 1 run rows.lua
says err.txt 'test.svm:2:7'
says err.txt "an index above the one before it, found '2:1'; sort the entries"
printf '1 10:1\n' >test.svm
run 1 run rows.lua
says err.txt 'columns = 10 or more'
printf '1 1:1\n' >test.svm
head -c 30 train.svm.gz >short.gz
mv short.gz train.svm.gz
run 1 run rows.lua
says err.txt 'gzip data that ends too early'
says err.txt '^  --> train.svm.gz'
nothing_left
finish
