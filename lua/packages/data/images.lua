-- tide.data.images: images and labels in MNIST's format (packed by gzip or not), or a generated task of the same form.
-- Parts: "train.x", "test.x" (f32 0..1, an image a row) and "train.y", "test.y" (i32 labels); all parts of a pair are
-- shuffled and cut alike.
local formats = require "tide.formats"
local package = require "tide.package"
local tensor = require "tide.tensor"
local tide = require "tide"

local NAMES <const> = {train = "train", test = "t10k"}

local function find(directory, part, kind)
  local found = package.list_files(directory) or {}
  local name <const> = ("%s-%s"):format(NAMES[part], kind == "x" and "images-idx3-ubyte" or "labels-idx1-ubyte")
  for _, file in ipairs(found) do
    local base = type(file) == "table" and file.name or file
    if base == name or base == name .. ".gz" then return directory .. "/" .. base end
  end
  return nil
end

local function read(path)
  local x, rest = formats.idx(path)
  if x then return x, rest end
  local message <const> = rest.message:sub(1, #path + 2) == path .. ": " and rest.message:sub(#path + 3) or rest.message
  return nil, package.error("T0402", message, {where = path})
end

local function read_pair(directory, part)
  local images, labels = find(directory, part, "x"), find(directory, part, "y")
  if not images and not labels then return nil end
  if not images or not labels then
    return nil, package.error("T0402", ("there is no file of %s for it"):format(images and "labels" or "images"),
      {where = images or labels, help = ("%s-%s-ubyte (or .gz) belongs beside it; without both files of a pair it is "
        .. "left out only if neither is there"):format(NAMES[part], images and "labels-idx1" or "images-idx3")})
  end
  local x, dims = read(images)
  if not x then return nil, dims end
  local y, form = read(labels)
  if not y then return nil, form end
  if #dims < 2 then
    return nil, package.error("T0402", "expected images, found one number each: labels?", {where = images})
  end
  if #form ~= 1 then
    return nil, package.error("T0402", ("expected labels, found %s: images?"):format(table.concat(form, " x ")),
      {where = labels})
  end
  if x:rows() == 0 then return nil, package.error("T0402", "there is no image in it", {where = images}) end
  if y:rows() ~= x:rows() then
    return nil, package.error("T0402", ("%d images, but %d labels"):format(x:rows(), y:rows()), {where = images})
  end
  return {x = x, y = y, dims = {dims[2], dims[3] or 1, dims[4] or 1}}
end

---Splits a pair after a shuffle; `test` examples become the test part.
local function split(pair, test, seed)
  pair.x:shuffle(seed)
  pair.y:shuffle(seed)
  local n <const> = pair.x:rows() - test
  return {["train.x"] = pair.x:slice(1, n), ["train.y"] = pair.y:slice(1, n),
          ["test.x"] = pair.x:slice(n + 1, test), ["test.y"] = pair.y:slice(n + 1, test)}
end

---Ten classes of smooth random pictures, each example shifted by up to 2 pixels and with noise.
local function generate(o)
  local rng, size, classes = tide.random(o.seed or 1), o.size or 28, 10
  local prototypes = {}
  for c = 1, classes do
    local blobs, picture = {}, tensor.zeros("f64", 1, size * size)
    for b = 1, 5 do
      blobs[b] = {4 + rng:uniform() * (size - 8), 4 + rng:uniform() * (size - 8), 1.5 + 2 * rng:uniform()}
    end
    for y = 0, size - 1 do
      for x = 0, size - 1 do
        local sum = 0
        for _, b in ipairs(blobs) do sum = sum + math.exp(-((x - b[1]) ^ 2 + (y - b[2]) ^ 2) / (2 * b[3] ^ 2)) end
        picture[y * size + x + 1] = math.min(1, sum)
      end
    end
    prototypes[c] = picture
  end
  local n = o.count or 2000
  local x, y = tensor.zeros("f32", n, size * size), tensor.zeros("i32", n, 1)
  for i = 1, n do
    local label, dx, dy = rng:below(classes), rng:below(5) - 2, rng:below(5) - 2
    y[i] = label
    rng:picture(x, i, prototypes[label + 1], dx, dy)
  end
  return {x = x, y = y, dims = {size, size, 1}}
end

return function(data)
  ---Images in MNIST's format with labels; parts train.x, train.y, test.x, test.y.
  ---@param directory? string with MNIST's files; nil: generated
  ---@param o? {test?: number, seed?: integer, count?: integer} test: share held out where there is one pair of files
  return function(directory, o)
    o = o or {}
    return data.lazy(function()
      local pair, err, test
      if directory then
        pair, err = read_pair(directory, "train")
        if err then return nil, err end
        test, err = read_pair(directory, "test")
        if err then return nil, err end
        if not pair then pair, test = test, nil end
        if not pair then
          return nil, package.error("T0401", ("%s has no images in MNIST's format"):format(directory),
            {where = directory, help = "it must hold t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (.gz)"})
        end
      else
        pair = generate(o)
      end
      local parts
      local cut <const> = directory and not test
        and (" of %s, which has one pair of files"):format(find(directory, "train", "x") and "train" or "t10k") or ""
      if test and table.concat(test.dims, " x ") ~= table.concat(pair.dims, " x ") then
        return nil, package.error("T0402", ("test images are %s, those to train on %s"):format(
          table.concat(test.dims, " x "), table.concat(pair.dims, " x ")), {where = find(directory, "test", "x")})
      end
      if test then
        parts = {["train.x"] = pair.x, ["train.y"] = pair.y, ["test.x"] = test.x, ["test.y"] = test.y}
      else
        parts = split(pair, math.floor(pair.x:rows() * (o.test or 0.2)), o.seed or 1)
      end
      local count = parts["train.x"]:rows()
      return {parts = parts, dims = pair.dims, count = count,
              note = ("%s: %d images of %d x %d to train on, %d held out%s"):format(directory or "generated", count,
                pair.dims[1], pair.dims[2], parts["test.x"]:rows(), cut)}
    end)
  end
end
