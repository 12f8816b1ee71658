-- All papers, one after the other, and the page of them.
--   tide run examples/papers/all.lua                             docs/papers.md, docs/images/papers/, about 30 minutes
--   tide run examples/papers/all.lua --only psld,boa             these parts anew; the others stay as they are
--   tide run examples/papers/all.lua --small --out /tmp/papers   two points a curve, one seed: does it work?
local tide = require "tide"
local paper = require "paper"

local ORDER <const> = {"psld", "lapse", "adapm", "pollux", "cavs", "poseidon", "sfb", "dmtrl", "strads", "lightlda",
                       "mplda", "essp", "boa"}
local opt <const> = tide.options {
  only = {"which, separated by commas; without it: all", type = "string"},
  small = {"two points a curve and one seed", default = false},
  out = {"directory of the page", default = "docs"},
  data = {"directory with data sets, a directory each (pollux, school); without it they are generated, or left out",
          type = "directory"},
}

local HEAD <const> = [[
# The papers, side by side

What Tide does, beside what the papers say whose systems it implements. `tide run examples/papers/all.lua` makes this
page; `--only NAME` makes one part anew. Each script prints its table and writes its chart to `.tide/papers/`.

- A mark names the place where a published value was read: abstract, paper, deck (the authors' slides, rounded), script
  (the authors' plotting script), artefact (the authors' repository). No value was read off a picture. "Not found" means
  that a search found no value; the chart then shows none.
- Figures of ours are medians of seeds 1, 2 and 3, with least and most in brackets. The seeds are those of the simulated
  world; generated data has seed 1. A ratio is ours over published.
- Simulated times are virtual; their median error against real links is 5.4 % ([simulator](guides/simulator.md)).
- No constant is fitted to a chart. Constants and their sources stand at the head of each script.

]]

local only
if opt.only then
  only = {}
  for name in opt.only:gmatch "[^,]+" do
    if not (" " .. table.concat(ORDER, " ") .. " "):find(" " .. name .. " ", 1, true) then
      error(("--only %s is none of %s"):format(name, table.concat(ORDER, ", ")), 0)
    end
    only[name] = true
  end
end

-- Keeps the part of a paper between two marks, so that one can be made anew.
local function mark(name) return ("<!-- %s -->\n"):format(name) end

local function part_of(page, name)
  local _, from <const> = page:find(mark(name), 1, true)
  if not from then return nil end
  return page:sub(from + 1, (page:find("\n<!-- ", from, true) or #page + 1) - 1)
end

local function read(path)
  local file <close> = io.open(path)
  return file and file:read "a" or ""
end

tide.main(function()
  local path <const>, parts = opt.out .. "/papers.md", {}
  local before <const> = read(path)
  for _, name in ipairs(ORDER) do
    local part = part_of(before, name)
    if not only or only[name] then
      local chart <const> = ("images/papers/%s.svg"):format(name)
      print(name)
      local result <const> = paper.run(name, {small = opt.small, chart = opt.out .. "/" .. chart, data = opt.data})
      for _, row in ipairs(result.rows) do
        print(("  %-66s %s"):format(row.what, row.pass == nil and "" or row.pass and "yes" or "NO"))
      end
      print(("  %.0f s"):format(result.seconds))
      part = paper.markdown(result, chart)
    end
    if part then parts[#parts + 1] = mark(name) .. part end
  end
  local file <close> = assert(io.open(path, "w"))
  file:write(HEAD, table.concat(parts, "\n"))
  print("page: " .. path)
end)
