-- What people note about a run.
package.path = "tests/lua/?.lua;" .. package.path
require "support"
local notes = require "tide.run.notes"

describe("notes of a run", function()
  it("adds and removes tags, each once, in order", function()
    local noted = assert(notes.changed({}, {tags = {"draft", "lr=low", "base", "lr=low"}}))
    assert.same({"base", "draft", "lr=low"}, noted.tags)
    noted = assert(notes.changed(noted, {tags = {"draft-", "absent-"}, note = "the second try"}))
    assert.same({tags = {"base", "lr=low"}, note = "the second try"}, noted)
    assert.is_nil(assert(notes.changed(noted, {note = ""})).note)
  end)

  it("refuses what is no tag, and changes nothing", function()
    local many = {}
    for i = 1, 17 do many[i] = "t" .. i end
    for _, tags in ipairs {{"two words"}, {""}, {"-"}, {"a\n"}, {"<b>"}, {("x"):rep(65)}, many} do
      local noted, err = notes.changed({tags = {"kept"}}, {tags = tags})
      assert.is_nil(noted)
      assert.equal("T0113", err.code)
    end
  end)

  it("refuses a note that is too long, or not text", function()
    for _, note in ipairs {("x"):rep(1001), "\xff\xfe"} do
      assert.equal("T0113", select(2, notes.changed({}, {note = note})).code)
    end
    assert.equal(1000, #notes.changed({}, {note = ("x"):rep(1000)}).note)
  end)
end)
