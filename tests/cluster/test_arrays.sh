#!/usr/bin/env bash
# Data of other programs in, results out: npy, npz, CSV, safetensors; sources of one's own, cut and resumed; with numpy
# on the other side.
source "$(dirname "$0")/harness.sh"

python=
for each in python3 /usr/bin/python3; do
    if "$each" -c 'import numpy' 2>/dev/null; then python=$each; fi
done
if [ -z "$python" ]; then
    echo "numpy is not there"
    exit 77
fi

"$python" - <<'PYTHON'
import gzip, json, struct
import numpy as np
rng = np.random.default_rng(1)
x = rng.normal(size=(100, 4)); y = (x @ np.array([1, -2, .5, 0]) > 0).astype(np.int64)
np.save("x.npy", x.astype("f4")); np.save("fortran.npy", np.asfortranarray(x.astype("f4")))
np.save("half.npy", x.astype("f2")); np.save("deep.npy", np.asfortranarray(np.arange(24, dtype="i2").reshape(2, 3, 4)))
np.save("objects.npy", np.array([{}], dtype=object), allow_pickle=True)
np.savez("a.npz", x=x, y=y); np.savez_compressed("c.npz", features=x, labels=y, extra=np.arange(3))
with gzip.open("flowers.csv.gz", "wt") as f:
    f.write("a,b,c,d,label,name\r\n")
    for i in range(100):
        f.write('%r,%r,%r,%r,%s,"n, ""%d"""\r\n' % (*map(float, x[i]), "yes" if y[i] else "no", i))
open("bad.csv", "w").write("a,b\n1,2\n3,x\n")
open("missing.csv", "w").write("a,b\n1,2\n,4\n")
d = bytearray(open("c.npz", "rb").read()); d[100] ^= 0xff; open("flipped.npz", "wb").write(d)
np.save("wide.npy", np.array([1, 1e300])); np.save("ids.npy", np.array([1, 2**64 - 1], dtype="u8"))
np.save("counts.npy", np.array([1, 2**24 + 1], dtype="f8"))
exact = np.concatenate([rng.normal(size=500), 10.0 ** rng.uniform(-320, 308, 500), [0.0, 5e-324, np.nan, np.inf, -np.inf]])
np.save("exact.npy", exact); np.savetxt("exact.csv", exact, fmt="%.17g", header="x", comments="")
np.savez("mixed.npz", x=x, meta=np.array([{}], dtype=object), names=np.array(["a"]))
np.savez("objects.npz", meta=np.array([{}], dtype=object)); np.save("none.npy", np.zeros((0, 3), dtype="f4"))
open("short.safetensors", "wb").write(b"abc"); open("noise.safetensors", "wb").write(b"\xff" * 100)
def idx(path, kind, dims): open(path, "wb").write(bytes([0, 0, 8, len(dims)]) + struct.pack(">%dI" % len(dims), *dims) + bytes(kind))
import os
for folder, test in ("alike", 4), ("unlike", 3), ("empty", 4):
    os.mkdir(folder)
    n = 0 if folder == "empty" else 5
    idx(folder + "/train-images-idx3-ubyte", n * 16, (n, 4, 4)); idx(folder + "/train-labels-idx1-ubyte", n, (n,))
    idx(folder + "/t10k-images-idx3-ubyte", 2 * test * test, (2, test, test)); idx(folder + "/t10k-labels-idx1-ubyte", 2, (2,))
open("cut.npy", "wb").write(open("x.npy", "rb").read()[:-7])
w = rng.normal(size=(10, 3)).astype("f4"); np.save("w.npy", w)
b = w.tobytes(); k = np.arange(19, -1, -2).astype("i8").tobytes()
h = json.dumps({"emb": {"dtype": "F32", "shape": [10, 3], "data_offsets": [0, len(b)]},
                "ids": {"dtype": "I64", "shape": [10], "data_offsets": [len(b), len(b) + len(k)]}}).encode()
h += b" " * (-len(h) % 8)
open("w.safetensors", "wb").write(struct.pack("<Q", len(h)) + h + b + k)
PYTHON

cat >read.lua <<'LUA'
local tide = require "tide"
local T = tide.tensor
local function fails(text, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok and tostring(err):find(text, 1, true), tostring(err))
end
tide.main(function()
  local x = T.load "x.npy"
  assert(x:rows() == 100 and x:columns() == 4 and x:type() == "f32")
  assert(T.load "fortran.npy":sub(x):norm() == 0)
  assert(T.load "half.npy":sub(x):norm() < 0.01)
  local deep = T.load "deep.npy"
  assert(deep:columns() == 12 and deep[1] == 0 and deep[24] == 23 and deep[14] == 13)
  local a = T.load "a.npz"
  assert(a.x:type() == "f64" and a.y:type() == "i64" and a.x:convert "f32":sub(x):norm() == 0)
  local set = tide.data.npz("c.npz", {names = {x = "features", y = "labels"}, split = {test = 0.2}})
  assert(set:whole "test.x":rows() == 20 and set:whole "train.y":type() == "i32" and set.count == 80)
  fails("`extra` has 3 rows", function() return tide.data.npz "c.npz".count end)
  fails("there are: extra, features, labels", function() return tide.data.npz("c.npz", {names = {x = "z"}}).count end)
  fails("is damaged", function() return tide.data.npz "flipped.npz".count end)
  fails("cut.npy: byte 128", T.load, "cut.npy")
  fails("elements of type '|O'", T.load, "objects.npy")
  fails("bad.csv:3:2", function() return tide.data.csv "bad.csv".count end)
  fails("missing.csv:3:1", function() return tide.data.csv "missing.csv".count end)
  local mixed <const> = tide.data.npz "mixed.npz"
  assert(mixed.count == 100 and mixed.note:find("`meta` is left out: elements of type '|O'", 1, true), mixed.note)
  fails("array `meta` is not read", function() return tide.data.npz("mixed.npz", {names = {x = "meta"}}).count end)
  fails("array `names` is not read", function() return T.load "mixed.npz".names end)
  fails("array `meta` is not read", T.load, "objects.npz")
  fails("there is nothing to train on: none.npy: 0 examples", function() return tide.data.npy "none.npy".count end)
  fails("requires `count`, a whole number from 1", tide.data.source, {count = 0, read = print})
  for _, name in ipairs {"short", "noise"} do fails(name .. ".safetensors", T.load, name .. ".safetensors") end
  fails("there are: emb, ids", function() return tide.data.dense "w.safetensors".count end)
  assert(tide.data.dense("w.safetensors", {x = "emb", y = "ids"}):whole "train".labels[1] == 19)
  assert(tide.data.images "alike".count == 5)
  fails("test images are 3 x 3 x 1, those to train on 4 x 4 x 1", function() return tide.data.images "unlike".count end)
  fails("empty/train-images-idx3-ubyte", function() return tide.data.images "empty".count end)
  assert(tide.data.csv("missing.csv", {missing = 7}):whole "train.a"[2] == 7)
  fails("did you mean `split`", tide.data.csv, "bad.csv", {splitt = {}})
  local table_ = tide.data.csv("flowers.csv.gz", {columns = {name = "text"}, inputs = {x = "*", y = "label"}})
  assert(table_.texts.name[3] == 'n, "2"' and table_:whole "train.x":sub(x):norm() < 1e-5)
  assert(#table_.classes.label == 2 and table_:whole "train.y":type() == "i32")
  for _, name in ipairs {"wide", "counts", "ids"} do
    fails("`x`: row 2: ", function() return tide.data.npy(name .. ".npy").count end)
    assert(tide.data.npy(name .. ".npy", {wide = true}).count == 2)
  end
  fails("counts.npy", function() return tide.data.npy "counts.npy".count end)
  fails("`b`: row 2: 16777217 does not fit f32", function() -- of two columns side by side, too
    T.save("ids.csv", {a = T.from("i64", {1, 2}), b = T.from("i64", {1, 16777217})})
    return tide.data.csv("ids.csv", {inputs = {x = "*"}}).count
  end)
  T.save("again.csv", {x = T.load "exact.npy"})
  T.save("again.npy", tide.data.csv("again.csv", {wide = true}):whole "train.x")
  T.save("read.npy", tide.data.csv("exact.csv", {wide = true}):whole "train.x")
  T.save("own.csv", {["a,\"b\""] = T.from("f32", {0 / 0, 0.1, -1 / 0}), u = T.from("i64", {1, 2, 3})})
  local own <const> = tide.data.csv("own.csv", {wide = true})
  assert(own:whole 'train.a,"b"'[1] ~= own:whole 'train.a,"b"'[1] and own.note:find "2 cells of a,\"b\" are nan or inf")
  assert(tide.data.csv("bad.csv", {columns = {b = "class"}}).note:find "separated by `,`, b has 2 classes")
  T.save("o.npy", a.x)
  T.save("o.csv", a)
  T.save("o.npz", {x = a.x, wide = T.zeros("i64", 3, 2):fill(7), ["fc1.w"] = T.zeros("f32", 2, 5):fill(1, 1)})
  assert(T.load "o.npz".x:sub(a.x):norm() == 0 and T.load "o.npz".wide[6] == 7)
  T.save("o.safetensors", a)
  assert(T.load "o.safetensors".x:sub(a.x):norm() == 0)
  fails("holds one tensor", T.save, "o.npy", a)
  print "read ok"
end)
LUA
run 0 run read.lua
says out.txt '^read ok$'
"$python" - <<'PYTHON' || fail "numpy reads something else"
import numpy as np
a = np.load("a.npz")
assert (np.load("o.npy") == a["x"]).all()
o = np.load("o.npz")
assert sorted(o.files) == ["fc1.w", "wide", "x"] and (o["x"] == a["x"]).all() and o["wide"].dtype == np.int64
assert o["fc1.w"].shape == (2, 5) and o["fc1.w"][1, 4] == 10, o["fc1.w"]
exact = np.load("exact.npy")
for name in "read", "again": # every number of 17 digits is read and written as it is
    np.testing.assert_array_equal(np.load(name + ".npy").ravel(), exact)
np.testing.assert_array_equal(np.genfromtxt("again.csv", skip_header=1), exact)
c = np.genfromtxt("o.csv", delimiter=",", names=True)
assert (c["x1"] == a["x"][:, 0]).all() and (c["y"] == a["y"]).all()
PYTHON

"$python" - <<'PYTHON'
import numpy as np
np.savez("far.npz", x=np.load("w.npy"), far=np.arange(10, dtype=np.uint64) + np.uint64(2**64 - 10))
PYTHON
cat >tables.lua <<'LUA'
local tide = require "tide"
local T = tide.tensor
local job = tide.job {
  name = "own",
  tables = {t = tide.table {keys = tide.dense(20), width = 3, update = {"adagrad", lr = 0.1}},
            h = tide.table {keys = tide.hashed(), width = 3}, v = tide.table {keys = tide.hashed(), width = 1},
            u = tide.table {keys = tide.hashed(), width = 1, init = tide.uniform {low = -1, high = 1}}},
  data = tide.data.source {count = 1000, read = function(first, last)
    return T.zeros("f32", last - first + 1):fill(first, 1)
  end},
  worker = function(w)
    for block in w.data:stream(w, {size = 100, passes = 2}) do w:report {sum = block:sum(), examples = #block} end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run <close> = cluster:start(job)
  local t, h, w = run.tables.t, run.tables.h, T.load "w.npy"
  assert(t:load("w.safetensors", {tensor = "emb", keys = "ids"}))
  assert(t:pull {19, 1}:sub(w:gather(T.from("u32", {0, 9}))):norm() == 0 and t:pull {0}:norm() == 0)
  assert(t:load("w.npy", {keys = 10}))
  assert(t:pull {10, 19}:sub(w:gather(T.from("u32", {0, 9}))):norm() == 0)
  assert(h:load("w.npy", {keys = 1000}) and h:pull {1009}:sub(w:gather(T.from("u32", {9}))):norm() == 0)
  local ok, err = pcall(t.load, t, "w.npy", {keys = 15})
  assert(not ok and tostring(err):find("as it was", 1, true))
  local function refused(why, table_, ...)
    local good, problem = pcall(...)
    assert(not good and tostring(problem):find(why, 1, true), tostring(problem))
    assert(table_:pull {10, 19}:sub(w:gather(T.from("u32", {0, 9}))):norm() == 0, "a row changed")
  end
  T.save("keys.npz", {x = w, half = T.zeros("f64", 10, 1):fill(0.5), below = T.zeros("i64", 10, 1):fill(-1, 1)})
  refused("keys are integers, not f64", t, t.load, t, "keys.npz", {tensor = "x", keys = "half"})
  refused("key -1 is negative", t, t.load, t, "keys.npz", {tensor = "x", keys = "below"})
  refused("key -1 is negative", t, h.load, h, "keys.npz", {tensor = "x", keys = "below"})
  refused("1.845e+19 do not fit", t, t.load, t, "far.npz", {tensor = "x", keys = "far"})
  assert(h:load("far.npz", {tensor = "x", keys = "far"}))
  refused("`keys` is -1, not a first key", t, t.load, t, "w.npy", {keys = -1})
  refused("not a first key", t, h.load, h, "w.npy", {keys = math.maxinteger})
  refused("`add` of t:load is true or false", t, t.load, t, "w.npy", {keys = 10, add = "no"})
  refused("table expected", t, t.load, t, "w.npy", 10)
  refused("path of a file is empty", t, t.load, t, "")
  refused("run:dump writes", t, t.save, t, "t.npy")
  local tall = T.zeros("f64", 20000, 3):fill(1)
  tall[60000] = 1e300 -- in the second piece that is applied
  T.save("tall.npy", tall)
  refused("row 20000: 1e+300 does not fit f32", t, h.load, h, "tall.npy")
  assert(h:pull {5}:norm() == 0, "the first piece was applied")
  refused("requires `tensor`", t, t.load, t, "keys.npz")
  assert(h:load("w.npy") and h:pull {9}:sub(w:gather(T.from("u32", {9}))):norm() == 0)
  local u <const>, v <const> = run.tables.u, run.tables.v
  u:save("u.safetensors")
  refused("was saved with init uniform -1 1, table", t, v.load, v, "u.safetensors")
  ok, err = pcall(t.load, t, "w.safetensors", {tensor = "em"})
  assert(not ok and tostring(err):find("there are: emb, ids", 1, true))
  local sum, seen = 0, 0
  for r in run:events "report" do
    sum, seen = sum + r.sum, seen + r.examples
  end
  run:dump("t.npy", {"t"})
  run:dump("t.npz", {"t"})
  run:save_reports "reports.npz"
  local ok2, err2 = pcall(run.dump, run, "h.npz", {"h"})
  assert(not ok2 and err2.message:find "hashed keys")
  run:save_reports "reports.csv"
  print(("sum %d of %d"):format(sum, seen))
end)
LUA
run 0 run tables.lua
says out.txt '^sum 1001000 of 2000$' # every number twice
[ "$(wc -l <reports.csv)" = 11 ] || fail "ten reports are a head and ten lines: $(cat reports.csv)"
"$python" -c 'import numpy as np; t = np.load("t.npy"); assert (t[10:] == np.load("w.npy")).all(), t' || fail "t.npy"
"$python" - <<'PYTHON' || fail "numpy reads other archives"
import numpy as np
z = np.load("t.npz")
assert z.files == ["t"] and (z["t"] == np.load("t.npy")).all()
r = np.load("reports.npz")
assert r["examples"].shape == (10,) and r["examples"].sum() == 2000 and r["sum"].sum() == 1001000, r.files
PYTHON

# Resumed behind the third block of five: the rest comes, nothing twice.
cat >resume.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {stop = {"reports", default = 0}}
local job = tide.job {
  name = "own", checkpoint = {dir = "saved", every = "1h"},
  data = tide.data.source {count = 1000, read = function(first, last)
    return tide.tensor.zeros("f32", last - first + 1):fill(first, 1)
  end},
  worker = function(w)
    for block in w.data:stream(w, {size = 100, passes = 2}) do
      w:report {sum = block:sum(), examples = #block}
      if w:stopping() then return end
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run <close> = cluster:start(job)
  local sum, seen = 0, 0
  for r in run:events "report" do
    sum, seen = sum + r.sum, seen + r.examples
    if r.n == opt.stop then
      run:checkpoint()
      run:stop()
    end
  end
  print(("sum %d of %d"):format(sum, seen))
end)
LUA
run 0 run resume.lua --stop 3
first=$(sed -n 's/^sum \([0-9]*\) of 600$/\1/p' out.txt)
run 0 run --resume saved resume.lua
rest=$(sed -n 's/^sum \([0-9]*\) of 1400$/\1/p' out.txt)
[ $((${first:-0} + ${rest:-0})) = 1001000 ] || fail "resumed: $first and $rest are not 1001000"

# The page's examples.
awk '/^```lua/ {n++; f = "page" n ".lua"; next} /^```/ {f = ""} f {print > f}' "$root/docs/guides/data.md"
run 0 run page1.lua
says out.txt '^[0-9.]+$'
cat >net.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local net = nn.sequential {input = {4}, loss = nn.xent(), nn.linear(2)}
tide.main(function()
  local m = net:compile {optimizer = nn.sgd {lr = 0.5}}
  m:load "net.safetensors"
  local set = tide.data.csv("flowers.csv.gz", {inputs = {x = {"a", "b", "c", "d"}, y = "label"}, columns = {label = "class"}})
  local r = m:evaluate {x = set:whole "train.x", y = set:whole "train.y"}
  assert(r.correct / r.count > 0.9, r.correct)
  m:save "again.safetensors"
  assert(tide.tensor.load "again.safetensors"["fc1.w"]:rows() == 4)
  m:save "again.npz"
  m:load "again.npz"
  assert(tide.tensor.load "again.npz"["fc1.w"]:sub(m:parameter "fc1.w"):norm() == 0)
  print "net ok"
end)
LUA
run 0 run net.lua
says out.txt '^net ok$'
run 0 run page2.lua
says out.txt '^sum\s1001000'
run 0 sim --seed 1 page2.lua
says out.txt '^sum\s1001000'
# Generated images: a picture that is shifted, dimmed and noisy, pixel by pixel as the formula says it.
cat >picture.lua <<'LUA'
local core = require "tide.core"
require "tide".main(function()
  local picture, x = core.tensor("f64", 1, 9), core.tensor("f32", 2, 9)
  for i = 1, 9 do picture[i] = i / 10 end
  local rng <const>, same <const> = core.random(7), core.random(7)
  rng:picture(x, 2, picture, 1, -1)
  local at = 9
  for r = -1, 1 do
    for c = 1, 3 do
      at = at + 1
      local from <const> = r >= 0 and c < 3 and picture[r * 3 + c + 1] or 0
      local expected <const> = from * (0.6 + 0.4 * same:uniform()) + 0.3 * same:uniform()
      assert(math.abs(x[at] - expected) < 1e-6, at)
    end
  end
  assert(x:slice(1, 1):sum() == 0 and rng:next() == same:next())
  assert(not pcall(rng.picture, rng, x, 3, picture, 0, 0) and not pcall(rng.picture, rng, x, 1, picture, 3, 0))
end)
LUA
run 0 run picture.lua
finish
