-- Byte-pair codes: what is joined, in which order, and that any text comes back.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

describe("byte pairs", function()
  local new
  setup(function()
    require "tests.lua.fresh"()
    new = require("tide.data.byte_pairs").new
  end)

  local function texts_of(code)
    local all = {}
    for token = 256, code.size - 1 do all[#all + 1] = code.texts[token] end
    return all
  end

  it("joins the most frequent pair first, the lowest of equals, and none that occurs once", function()
    -- Sennrich et al., section 3.2, with blanks as ends of words
    local code <const> = new(("low "):rep(5) .. ("lowest "):rep(2) .. ("newer "):rep(6) .. ("wider "):rep(3), 260)
    assert.are.same({"er", "lo", "low", " n"}, texts_of(code))
    assert.are.same({}, texts_of(new("abcd", 300)))
    assert.are.same({"ab"}, texts_of(new("ab ab", 300)))
  end)

  it("does not join over words, and keeps the blank before one", function()
    local code <const> = new(("a1 b2 "):rep(9), 300)
    assert.are.same({" b", " a"}, texts_of(code))
  end)

  it("gives back any text, also one that it has not seen", function()
    local code <const> = new(("the cat, the hat; 12 12 12\n"):rep(4), 280)
    local every = {}
    for byte = 0, 255 do every[byte + 1] = string.char(byte) end
    for _, text in ipairs {"", "the cat", "  the\t\tthat\n", "caf\u{e9} 1212", table.concat(every), ("x"):rep(1000)} do
      assert.are.equal(text, code:decode(code:encode(text)))
    end
    assert.are.equal(1, #code:encode "the")
    assert.are.same({code:encode(" the")[1], code:encode(",")[1]}, code:encode " the,")
  end)

  it("is the same for the same text", function()
    local text <const> = ("to be or not to be that is the question "):rep(3)
    assert.are.same(texts_of(new(text, 300)), texts_of(new(text, 300)))
  end)

  it("rejects other arguments by name", function()
    local function refused(why, ...)
      local ok <const>, err <const> = pcall(new, ...)
      assert.is_false(ok)
      assert.is_truthy(err.message:find(why, 1, true), err.message)
    end
    refused("requires a text, not a nil", nil, 300)
    refused("the size is 255, not a number of tokens from 256", "a", 255)
    local ok <const>, err <const> = pcall(new("ab", 256).decode, new("ab", 256), {1, 256})
    assert.is_false(ok)
    assert.is_truthy(err.message:find("token 2 is 256; the code has tokens 0 to 255", 1, true), err.message)
  end)
end)
