#!/usr/bin/env python3
"""The port is the only way out: every object of the library may use only the outside symbols that symbols.allow grants
it. A line there is `object-pattern symbol-pattern`, both shell patterns; a new one needs a reason in its comment.

usage: symbols.py SOURCE-DIR OBJECT-DIR..."""
import fnmatch
import os
import sys

import objects


def main():
    source, directories = sys.argv[1], sys.argv[2:]
    found = objects.read(source, directories)
    with open(os.path.join(source, "tests/symbols.allow"), encoding="utf-8") as file:
        allowed = [line.split()[:2] for line in file if line.strip() and not line.startswith("#")]
    own = set().union(*(defined for _, _, defined, _ in found))
    bad = 0
    for _, file, _, wanted in found:
        granted = [symbols for pattern, symbols in allowed if fnmatch.fnmatchcase(file.removesuffix(".c"), pattern)]
        for symbol in sorted(wanted - own):
            if not any(fnmatch.fnmatchcase(symbol, pattern) for pattern in granted):
                bad += 1
                print(f"{file} uses {symbol}: go through the port, or grant it in tests/symbols.allow with a reason")
    if bad == 0:
        print(f"ok: {len(found)} objects use only what they are granted")
    return bad > 0


sys.exit(main())
