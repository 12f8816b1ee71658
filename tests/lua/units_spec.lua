package.path = "tests/lua/?.lua;" .. package.path
require "support"
local text = require "tide.text"
local units = require "tide.units"

describe("units", function()
  it("parse durations", function()
    for given, seconds in pairs {["250us"] = 250e-6, ["20ms"] = 0.02, ["30s"] = 30, ["5m"] = 300, ["2h"] = 7200,
                                 ["1.5 s"] = 1.5, ["30"] = 30, ["0"] = 0, ["1d"] = 86400, ["1e3"] = 1000} do
      assert.near(seconds, units.parse_duration(given), 1e-12, given)
    end
    assert.equal(3, units.parse_duration(3))
  end)

  it("parse sizes, exactly", function()
    for given, bytes in pairs {["64KiB"] = 65536, ["4MiB"] = 4194304, ["2GiB"] = 2147483648, ["64kB"] = 64000,
                               ["4MB"] = 4000000, ["512"] = 512, ["7B"] = 7, ["1.5KiB"] = 1536} do
      assert.equal(bytes, units.parse_size(given), given)
      assert.equal("integer", math.type(units.parse_size(given)))
    end
  end)

  it("parse rates and shares", function()
    assert.equal(1.25e9, units.parse_rate "10Gbit")
    assert.equal(1e8, units.parse_rate "800Mbit")
    assert.equal(1.2e9, units.parse_rate "1.2GB/s")
    assert.near(0.1, units.parse_share "10%", 1e-15)
    assert.equal(0.25, units.parse_share "0.25")
    assert.equal(1, units.parse_share(1))
  end)

  it("refuse what is none, and say how it is written", function()
    for _, bad in ipairs {"", "x", "3 weeks", "-1s", "1s2", "s", "1.2.3s", "0x10", "inf", "nan", "1S", -1, 0 / 0,
                          math.huge, true, {}} do
      local value, why = units.parse_duration(bad)
      assert.is_nil(value, tostring(bad))
      assert.is_string(why)
    end
    local _, why = units.parse_duration "3 weeks"
    assert.equal("`3 weeks` is not a duration: write 250us, 20ms, 30s, 5m or 2h", why)
    for _, bad in ipairs {"4mib", "9e30", "4K", "-4", ""} do assert.is_nil((units.parse_size(bad))) end
    for _, bad in ipairs {"110%", "-0.1", "x", "1.5"} do assert.is_nil((units.parse_share(bad))) end
    assert.is_nil((units.parse_rate "10 parsec"))
  end)

  it("format with three significant digits", function()
    for given, printed in pairs {[0] = "0", [1] = "1", [9.994] = "9.99", [9.996] = "10", [99.94] = "99.9",
                                 [99.96] = "100", [702] = "702", [999.4] = "999", [999.6] = "1k", [8400] = "8.4k",
                                 [20000] = "20k", [1234567] = "1.23M", [-1500] = "-1.5k"} do
      assert.equal(printed, units.format_count(given))
    end
    assert.equal("nan", units.format_count(0 / 0))
    assert.equal("inf", units.format_count(math.huge))
    assert.equal("3.2 MiB", units.format_size(3.2 * 1024 * 1024))
    assert.equal("512 B", units.format_size(512))
    assert.equal("702 ex/s", units.format_rate(702, "ex"))
    assert.equal("99.2%", units.format_share(0.992))
  end)

  it("format durations and clocks", function()
    for given, printed in pairs {[0] = "0 s", [250e-6] = "250 us", [0.02] = "20 ms", [1.5] = "1.5 s",
                                 [59.96] = "1m 00s",
                                 [125] = "2m 05s", [11220] = "3h 07m", [187200] = "2d 04h", [0.9999] = "1 s"} do
      assert.equal(printed, units.format_duration(given))
    end
    assert.equal("00:12", units.format_clock(12))
    assert.equal("1:02:03", units.format_clock(3723))
    assert.equal("--:--", units.format_clock(-1))
    assert.equal("--:--", units.format_clock(math.huge))
    assert.equal("--:--", units.format_clock(0 / 0))
  end)
end)

describe("text", function()
  it("measures and cuts by characters", function()
    assert.equal(3, text.width "äöü")
    assert.equal("äö…", text.cut("äöüß", 3, true))
    assert.equal("ab~", text.cut("abcd", 3, false))
    assert.equal("äöüß", text.cut("äöüß", 4, true))
    assert.equal("", text.cut("abc", 0, true))
    assert.equal("\xff…", text.cut("\xff\xfe\xfd", 2, true))
  end)

  it("lists names in natural order and says of many only the first and the last", function()
    assert.equal("c0 n1 n2 n10 s1", text.names {"n10", "s1", "n2", "c0", "n1"})
    local many = {}
    for i = 1, 16 do many[i] = "n" .. i end
    assert.equal("n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 n12 n13 n14 n15 n16", text.names(many))
    for i = 17, 1000 do many[i] = "n" .. (1017 - i) end
    assert.equal("n1 n2 n3 n4 n5 n6 ... n1000", text.names(many))
    assert.equal("", text.names {})
  end)

  it("escapes whatever could move a cursor", function()
    assert.equal("a\\x1b[2Jb\\x00\\x7f", text.clean "a\27[2Jb\0\127")
    assert.equal("\\xff\\xc3", text.clean "\xff\xc3")
    assert.equal("ä\\u{85}?", text.clean "ä\u{85}\u{202e}")
    assert.equal("\\x1b[2J\ta\27[1;31mb\27[0m\n\\x1b]0;x\\x07\n",
      text.harmless "\27[2J\ta\27[1;31mb\27[0m\n\27]0;x\7\n")
    assert.equal("ä\\x0d", text.harmless "ä\r")
    assert.equal('{"ä\\u007f":"\\u0085\\u202e\\u2066…"}', text.harmless_json '{"ä\127":"\u{85}\u{202e}\u{2066}…"}')
    assert.equal("a\n  b\\x07", text.clean_lines "a\n\tb\7")
  end)

  it("wraps", function()
    assert.same({"aa bb", "  cc"}, text.wrap("aa bb cc", 5, "  "))
    assert.same({""}, text.wrap("", 5))
  end)

  it("finds near names, nearest first, and nothing far", function()
    assert.same({"status"}, text.nearest("stauts", {"nodes", "status", "tables"}))
    assert.same({"nodes", "node"}, text.nearest("nodess", {"node", "nodes", "up"}))
    assert.same({}, text.nearest("xyzzy", {"node", "nodes", "up"}))
    assert.same({}, text.nearest(("x"):rep(10000), {"node"}))
    assert.equal("did you mean `a1` or `a2`?", text.did_you_mean("a", {"a1", "a2"}))
    assert.is_nil(text.did_you_mean("zzz", {"a"}))
  end)
end)
