-- This process as a client: by which of a cluster's endpoints it enters.
local fresh <const> = require "tests.lua.fresh"

describe("entering a cluster of several controllers", function()
  local tried, answers

  local function client()
    local fake <const> = fresh()
    tried = {}
    fake.core.node_start = function(o)
      tried[#tried + 1] = o.join
      local problem <const> = answers[o.join]
      return not problem or nil, problem
    end
    package.loaded["tide.directory"] = {
      base = function() return "/run/tide" end,
      endpoints = function() return {"unix:c1", "unix:c2", "unix:c3"} end,
      pids = function() return {1} end,
    }
    return require "tide.cluster.client"
  end

  after_each(function() package.loaded["tide.directory"] = nil end)

  it("passes over one that accepts the connection and does not answer", function()
    answers = {["unix:c1"] = {name = "ETIMEDOUT", message = "no hello"}}
    assert.is_true(client().enter("lab", {client = true}))
    assert.same({"unix:c1", "unix:c2"}, tried)
  end)

  it("reports what the first one said if none answers, and retries no rejection", function()
    answers = {["unix:c1"] = {name = "ETIMEDOUT", message = "no hello of c1"},
               ["unix:c2"] = {name = "EACCES", message = "not allowed"}}
    local ok, err = client().enter("lab", {client = true})
    assert.is_nil(ok)
    assert.equal("no hello of c1", err.message)
    assert.same({"unix:c1", "unix:c2"}, tried)
  end)
end)
