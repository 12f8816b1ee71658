"""What the lines of the pages' blocks find, and how those are run that do not end by themselves (blocks.py)."""
import gzip
import os
import random
import shutil

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Options that make an example short; those that a line names itself stay as they are.
SMALL = {
    "kge.lua": "--data triples --dim 8 --epochs 1 --nodes 2 --neg 8 --batch 128",
    "mf.lua": "--data ml-100k/u.data --epochs 1 --nodes 2 --rank 8",
    "word2vec.lua": "--data corpus.txt --min-count 1 --nearest bab --epochs 1 --dim 8",
    "mnist.lua": "--count 200 --epochs 1",
    "kmeans.lua": "--points 1000 --steps 2",
    "gallery/net.lua": "--epochs 1",
    "lasso_ssp.lua": "--train 60 --columns 40 --entries 6 --epochs 1 --clocks 2 --work 1ms --models bsp",
    "sfb.lua": "--train 96 --columns 50 --classes 8 --epochs 1 --models mlr --nodes 2",
    "psld.lua": "--iterations 8 --from 4",
    "boa.lua": "--steps 4",
    "lda.lua": "--passes 2 --topics 8 --show 2 --data text.txt --min-count 1",
}

# How a line is run that matches: it stays until the block's end, is ended by Ctrl-C, or at a terminal by keys; or may
# also end with another code.
HOW = [
    (r"^tide node\b|^tide launch (local|none|mpi)", "stays"),
    (r"^tide log -f|^tide dashboard|--watch|^tide job attach", "interrupted"),
    (r"^tide (repl|attach)(?!.* -e)", "keys \\q"),
    (r"^tide run -i", "keys \\q"),
    (r"^tide doctor", "exit 1"),
    (r"--shrink", "exit 2"),  # of a run that passes
    (r"^tide run wrong.lua", "exit 1"), (r"--rat ", "exit 2"),  # mistakes of a lesson
    (r"^tide job wait", "exit 1"),  # of a run that is stopped
]

# Lines that only look at a cluster or a run: what they show may take a moment to be so.
LOOKS = r"^tide (jobs|why|nodes|status|stack|events|job logs|policy (why|history)|attach .*-e)\b"

SUBMITTED = ("tide up lab -n 2 --workers 2", "tide submit --cluster lab --slots 2 mf.lua --steps 100000")

# By page: what there is before its first line (files that are made, lines that are run), and words that are replaced.
PAGES = {
    "README": {"makes": ["triples", "ml-100k/u.data", "corpus.txt"], "replaced": {"--seeds 0..49": "--seeds 0..1"}},
    "applications": {"makes": ["triples", "wn18rr", "ml-100k/u.data", "mf1m/train.mtx", "mf1m/test.mtx", "FILE", "corpus.txt"]},
    "cli": {"makes": ["mf.lua"]},
    "console": {"makes": ["mf.lua"], "before": ["tide up lab -n 2"]},
    "dashboard": {"makes": ["ml-100k/u.data"], "before": ["tide keys init far", "mkdir -p .config/tide", "cp -r keys/far/admin .config/tide/lab",
                             "tide node --keys keys/far/node --listen tcp:10.0.0.4:7700", "tide up lab -n 2"],
                  "replaced": {"tide dashboard  ": "tide dashboard --cluster lab  "}},
    "kernels": {"replaced": {"$(pkg-config --cflags tide)": "-Iruntime/include"}},
    "metrics": {"before": ["tide up lab -n 2"], "replaced": {"/var/lib/prometheus/node-exporter": "."}},
    "operations": {"makes": ["mf.lua"], "before": ["tide up lab -n 2", "tide run --cluster lab mf.lua"]},
    "packages": {"before": ["mkdir -p .local/share/bash-completion/completions"],
                 "replaced": {} if shutil.which("man") else {"man -l -": "cat"}},
    "run-history": {"makes": ["mf.lua"], "before": ["tide up lab -n 2"] + ["tide run --cluster lab mf.lua"] * 3,
                    "replaced": {"20261126-23": "$(ls .tide/runs | head -1)"}},
    "runs": {"makes": ["mf.lua"], "replaced": {"mf.lua ": "mf.lua --steps 100000 "}},
    "scheduling": {"makes": ["profiles", "mine.lua", "train.lua"], "replaced": {}},
    "scripting": {"makes": ["triples"]},
    "security": {"replaced": {}},
    "several-machines": {"before": ["tide keys init lab", "cp -r keys/lab/node node", "tide up lab -n 1"]},
    "simulator": {"makes": ["mf.lua", "ml-100k/u.data"], "replaced": {"1..200": "1..3", "0..1999": "0..1", "costs.json mf.lua": "costs.json examples/mf.lua"}},
    "tour": {"replaced": {"tide run ": "tide sim --seed 1 "}},  # where no other load makes a step longer
    "topics": {"makes": ["text.txt", "docword.nips.txt.gz", "vocab.nips.txt"]},
}
LUA_REPLACED = {"topics": {"min_count = 20": "min_count = 200"}}
LUA_MAKES = {"data": ["flowers.csv.gz"], "exchange": ["news20.scale"], "scheduling": ["profiles"], "runs": ["mf.lua"]}


def triples(place, directory):
    os.makedirs(f"{place.path}/{directory}", exist_ok=True)
    draw = random.Random(1)
    for part, count in (("train", 600), ("valid", 40), ("test", 40)):
        with open(f"{place.path}/{directory}/{part}.txt", "w", encoding="utf-8") as file:
            for _ in range(count):
                s, r = draw.randrange(60), draw.randrange(4)
                file.write(f"e{s}\tr{r}\te{(s * (2 * r + 1) + 7 * r) % 60}\n")


def profiles(place):
    """Profiles and workloads of the simulator of jobs, by what its tests use."""
    with open(f"{place.path}/profiles.lua", "w", encoding="utf-8") as file:
        file.write('local tide = require "tide"\ntide.main(function() print(dofile("tests/policy/small_trace.lua").make(6)) end)\n')
    folder = place.bash("tide run -q profiles.lua").split()[-1]
    for name, ag, bg in (("wide", 0.05, 0.002), ("narrow", 0.2, 0.01)):
        with open(f"{folder}/profiles/{name}/interpolated.csv", "w", encoding="utf-8") as file:
            file.write("num_nodes,num_replicas,local_bsz,step_time,sync_time\n")
            for nodes in range(5, 17):
                for replicas in range(nodes, 4 * nodes + 1):
                    for m in (4, 16, 64, 128):
                        file.write(f"{nodes},{replicas},{m},{ag + bg * m + 0.05 + 0.01 * replicas:.6f},0.05\n")
    place.bash(f"mv {folder}/profiles . && for name in workload-6 w1 w2 w; do cp {folder}/workload.csv $name.csv; done"
               f" && rm -r {folder}")


def make(place, name):
    """A small file or directory that lines name."""
    path = f"{place.path}/{name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draw = random.Random(2)
    if name in ("triples", "wn18rr"):
        return triples(place, name)
    if name == "profiles":
        return profiles(place)
    text = FILES[name]
    text = text(draw) if callable(text) else text
    with gzip.open(path, "wt", encoding="utf-8") if name.endswith(".gz") else open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return None


def ratings(draw):
    return "".join(f"{draw.randrange(1, 41)}\t{draw.randrange(1, 31)}\t{draw.randrange(1, 6)}\t0\n" for _ in range(600))


def market(draw):
    cells = {(draw.randrange(1, 41), draw.randrange(1, 31)): draw.randrange(1, 6) for _ in range(300)}
    return (f"%%MatrixMarket matrix coordinate real general\n40 30 {len(cells)}\n"
            + "".join(f"{row} {column} {value}\n" for (row, column), value in sorted(cells.items())))


def words(draw):
    known = [a + b + c for a in "bdfgklmn" for b in "aeiou" for c in "bdfgklmn"]
    return "".join(" ".join(draw.choice(known) for _ in range(12)) + "\n" for _ in range(300))


def examples(labels):
    def text(draw):
        return "".join(f"{draw.choice(labels)} " + " ".join(f"{k}:{draw.random():.3f}" for k in sorted(draw.sample(range(1, 60), 8)))
                       + "\n" for _ in range(80))
    return text


def documents(draw):
    cells = {(d, draw.randrange(1, 41)): draw.randrange(1, 4) for d in range(1, 31) for _ in range(12)}
    return f"30\n40\n{len(cells)}\n" + "".join(f"{d} {w} {n}\n" for (d, w), n in sorted(cells.items()))


def flowers(draw):
    return "a,b,c,d,label\n" + "".join(",".join(f"{kind + draw.random():.3f}" for _ in range(4)) + f",kind{kind}\n"
                                        for kind in (0, 1) for _ in range(60))


MF = """local tide = require "tide"
local opt = tide.options {steps = {"reports", default = 3}, nodes = {"processes", default = 2},
  workers = {"of a node", default = 1}, rank = {"numbers", default = 64}, seed = {"draws", default = 1}}
local job = tide.job {
  name = "NAME", params = {eps = 0.1, rank = opt.rank}, on_worker_loss = "replay",
  tables = {m = tide.table {keys = tide.dense(100), width = 2}},
  worker = function(w)
    for n = 1, opt.steps do
      if w:stopping() then break end
      w.tables.m:pull {n % 100}
      tide.sleep(0.01)
      w:report {examples = 10, loss = 8 / n}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
  cluster:start(job):wait()
end)
"""

FILES = {"text.txt": words, "corpus.txt": words, "ml-100k/u.data": ratings, "mf1m/train.mtx": market, "mf1m/test.mtx": market,
         "FILE": examples([-1, 1]), "news20.scale": examples([1, 2, 3]), "docword.nips.txt.gz": documents,
         "vocab.nips.txt": "".join(f"w{i}\n" for i in range(1, 41)), "flowers.csv.gz": flowers,
         "mf.lua": MF.replace("NAME", "mf"), "train.lua": MF.replace("NAME", "train").replace("default = 3", "default = 100000"),
         "mine.lua": lambda _: open(ROOT + "/scripts/policies/scheduling/fifo.lua", encoding="utf-8").read()}
