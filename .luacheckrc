-- Lua of the project: 5.4, no globals but those of a test runner in its files.
std = "lua54"
max_line_length = 120
-- Declarations of what C provides: parameters are named for their annotations.
files["lua/tide/core.meta.lua"] = {ignore = {"212", "631"}}
files["lua/tide/meta/*.lua"] = {ignore = {"212", "631"}}
files["docs/reference/*.lua"] = {ignore = {"211", "212", "241", "631"}} -- generated declarations
files["tests/lua/*_spec.lua"] = {std = "lua54+busted"}
exclude_files = {"build/**", "build-*/**", "tests/docs/around/**"} -- templates that blocks.py fills are not yet Lua
files["tests/policy/*.lua"] = {max_line_length = false, globals = {"SOURCE"}}
files["bench/policy.lua"] = {globals = {"row"}}
