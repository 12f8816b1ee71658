#!/usr/bin/python3
"""What the screen shows at the prompt of `tide attach`, character by character: windows of any size, lines that come
while one is typed, wide characters, plain terminals, hostile text, ends.

Usage: console_screen.py TIDE CLUSTER CASE. The screen is python3-pyte's; typing and waiting are console.py's.
"""
import os
import re
import signal
import subprocess
import sys
import time

import pyte

import console
from console import Prompt

PROMPT = r"> ?$"


class Person(Prompt):
    def __init__(self, tide, cluster, *words, rows=24, columns=80, environment=None, verb=("attach",)):
        os.environ.update(environment or {})
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.fed = 0
        super().__init__(tide, cluster, *words, rows=rows, columns=columns, verb=verb)

    def read(self, seconds):
        alive = super().read(seconds)
        # Bracketed paste is a mode that pyte 0.8 does not know by name.
        self.stream.feed(self.transcript[self.fed:])
        self.fed = len(self.transcript)
        return alive

    def size(self, rows, columns):
        super().size(rows, columns)
        self.screen.resize(rows, columns)

    def lines(self):
        shown = [line.rstrip() for line in self.screen.display]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    def wait_until(self, look, missing):
        """What look() gives, as soon as that is not None."""
        end = time.monotonic() + console.LIMIT_S
        while True:
            seen = look()
            if seen is not None:
                return seen
            if time.monotonic() > end or not self.read(0.05):
                self.fail(f"{missing}; the screen shows:\n" + "\n".join(self.lines()))

    def shows(self, pattern, where=-1):
        """Waits until a line of the screen (the last one; None: all as one text) matches."""
        def text():
            lines = self.lines()
            shown = "\n".join(lines) if where is None else lines[where] if len(lines) >= abs(where) else ""
            return shown if re.search(pattern, shown, re.M) else None
        return self.wait_until(text, f"/{pattern}/ is not shown")

    def cursor_is_in(self, column):
        """Waits for it: a line is drawn before the cursor goes back into it."""
        self.wait_until(lambda: self.screen.cursor.x == column or None, f"the cursor is not in column {column}")

    def check(self, what, condition):
        if not condition:
            self.fail(f"{what}; the screen shows:\n" + "\n".join(self.lines()))


def node_pid(place):
    """Process of a node by its place among those that were started; 0 is the controller."""
    with open(os.environ["XDG_RUNTIME_DIR"] + "/tide/" + sys.argv[2] + "/pids", encoding="utf-8") as pids:
        return int(pids.read().split("\n")[place].split()[0])


def case_resize(start):
    """A line that is being typed survives any window; results keep to its width."""
    p = start()
    p.shows(PROMPT)
    p.type("x = 'a long line that does not fit'")
    p.shows("fit'$")
    p.size(24, 20)
    p.type(" .. 1")
    p.shows(r"1$")
    p.size(40, 200)
    p.type("2")
    p.shows(r"> x = 'a long line that does not fit' \.\. 12$")
    p.type("\r")
    p.shows(PROMPT)
    p.type("x\r")
    p.shows(r'^"a long line that does not fit12"$', where=-2)
    p.size(50, 40)
    p.type("top()\r")
    p.shows(r"^address", where=None)
    p.shows(PROMPT)
    p.check("a table is wider than the window", all(len(line) <= 40 for line in p.lines()))
    p.type("\x04")
    p.ends_well()


def case_above(start):
    """What is told while somebody types comes above the line, which stays as it was, cursor included."""
    p = start()
    p.shows(PROMPT)
    first = node_pid(1)
    p.type("kept = 1 while true do core.sleep(0.01) end\r")
    time.sleep(0.3)
    os.kill(first, signal.SIGSTOP)
    try:
        p.type("\x03")
        time.sleep(0.2)
        p.type("\x03")
        p.shows("left to itself", where=None)
        p.shows(PROMPT)
        p.type("1000 + 337" + "\x1b[D" * 3)
        line = p.shows(r"> 1000 \+ 337$")
        p.cursor_is_in(len(line) - 3)
    finally:
        os.kill(first, signal.SIGCONT)
    p.shows("evaluation 1 has ended: cancelled", where=-2)
    p.shows(r"> 1000 \+ 337$")
    p.cursor_is_in(len(line) - 3)
    p.type("2\r")  # where the cursor was: 1000 + 2337
    p.shows(r"^3337$", where=-2)
    p.type("\x04")
    p.ends_well()


def case_stopped(start):
    """A node that stands still holds up neither a target's Ctrl-C nor, for longer than its limit, what others say."""
    p = start()
    p.shows(PROMPT)
    p.type("@all node.name\r")
    p.shows('^n2: "n2"$', where=None)
    p.shows(PROMPT)
    second = node_pid(2)
    os.kill(second, signal.SIGSTOP)
    try:
        p.type("@all 1 + 1\r")
        time.sleep(0.3)
        p.type("\x03")
        p.shows("cancelled after", where=None)
        p.shows(PROMPT)
        p.type("@all 40 + 2\r")
        p.shows(r"^n1: 42$", where=None)
        p.shows(r"^n2: error\[T05\d\d\]", where=None)
        p.shows(PROMPT)
        p.type("6 * 7\r")
        p.shows("^42$", where=-2)
    finally:
        os.kill(second, signal.SIGCONT)
    p.type("\x04")
    p.ends_well()


def case_wide(start):
    """Characters of two columns and of several bytes: cursor keys and deletion take whole ones."""
    p = start()
    p.shows(PROMPT)
    p.type("'日本語ü'")
    p.shows(r"> '日 ?本 ?語 ?ü'$")
    p.type("\x1b[D\x7f\x7f\r")  # before the quote: ü and 語 go
    p.shows(r'^"日 ?本 ?"$', where=-2)
    p.type("'a\xff'\x7f\x7f".encode("latin-1") + b"'\r")  # a byte that is no UTF-8
    p.shows(PROMPT)
    p.type("7 * 6\r")
    p.shows(r"^42$", where=-2)
    p.type("\x04")
    p.ends_well()


def case_plain(start):
    """A terminal that can do nothing, and a locale without UTF-8: no escape sequences, no other characters."""
    p = start(environment={"TERM": "dumb", "LC_ALL": "C"})
    p.expect("> $")
    p.type("hist{1, 2, 2}\r")
    p.expect(r"###(.|\n)*> $")
    p.type("top{limit = 3}\r")
    p.expect(r"address(.|\n)*> $")
    p.type("spark{1, 2, 3}\r")
    p.expect(r"_=#(.|\n)*> $")
    p.type("1 + 1\r")
    p.expect(r"^2\n(.|\n)*> $")
    p.check("escape sequences on a plain terminal", b"\x1b" not in p.transcript)
    p.check("more than ASCII", max(p.transcript) < 128)
    p.type("\x04")
    p.ends_well()


def case_hostile(start):
    """Text from the cluster cannot move the cursor, ring, or set titles."""
    p = start()
    p.shows(PROMPT)
    for line, shown in (("print('a\\27[2J\\27]0;title\\7b')", r"^a\\x1b\[2J\\x1b\]0;title\\x07b$"),
                        ("'\\27[1;1H\\255'", r'^"\\x1b\[1;1H\\xff"$'),
                        ("error('\\27[2J\\8\\8')", r"\\x1b\[2J\\x08\\x08"),
                        ("core.event('\\27[2J', '\\27[31mred') return events()", r"\\x1b\[2J .*\\x1b\[31mred"),
                        ("return {['\\27c'] = '\\27c'}", r"\\x1bc.* = ")):
        p.type(line + "\r")
        p.shows(shown, where=None)
        p.shows(PROMPT)
    p.type("return 7\r")
    p.shows(r"^7$", where=-2)
    p.check("the beginning is still there", any("? for help" in line for line in p.lines()))
    p.type("\x04")
    p.ends_well()


def case_ends(start):
    """A signal or a terminal that closes ends the prompt; what ran goes on, and the terminal is as it was."""
    for name, code in (("SIGTERM", 143), ("SIGHUP", 129)):
        for typed in ("", "while true do core.sleep(0.01) end\r"):
            p = start()
            p.shows(PROMPT)
            p.type(typed)
            if typed:
                time.sleep(0.3)
                p.size(30, 90)  # a signal that nobody waits for
            os.kill(p.pid, getattr(signal, name))
            ended = p.end()
            p.check(f"{name} after '{typed}' ended with {ended}", ended == code)
            p.check("bracketed paste is still on", p.transcript.rstrip().endswith(b"\x1b[?2004l"))
    p = start()
    p.shows(PROMPT)
    os.close(p.fd)
    end = time.monotonic() + console.LIMIT_S
    while os.waitpid(p.pid, os.WNOHANG)[0] == 0:
        p.check("the prompt outlives its terminal", time.monotonic() < end)
        time.sleep(0.05)


def case_given_up(start):
    """Ctrl-C on a line that was begun leaves it on a row of its own; a paste gives its last value; nothing is lost in
    a file, whose errors are told of the right side; more() gives all lines there are."""
    p = start(columns=60)
    p.shows(PROMPT)
    p.type("half a li\x03")
    p.shows("half a li$", -2)
    p.shows("^scr> ?$")
    p.type("x" * 70 + "\x01\x03")  # two rows, with the cursor in the first
    p.shows("^xx*$", -2)
    p.shows("^scr> ?$")
    p.type("\x1b[200~one = 1\ntwo = 2\none + two\x1b[201~\r")
    p.shows("^3$", -2)
    p.type('save({{a=1}, {b=2}}, "cells.csv") save({{c=1}}, "cells.csv")\r')
    p.shows("on the client: .cells.csv. exists", None)
    with open("cells.csv", encoding="utf-8") as f:
        p.check("cells.csv", f.read() == "a,b\n1,\n,2\n")
    p.type("for i = 1, 9000 do print('row ' .. i) end\r")
    p.shows("more: more\\(\\)", None)
    p.type("more()\r")
    p.shows("^row 9000$", -2)
    p.type("more()\r")
    p.shows("^nothing is left$", -2)
    p.type("\\q\r")
    p.end()


def case_top(start):
    """In a small terminal the header stays and nothing wraps; q leaves."""
    p = Person(sys.argv[1], sys.argv[2], verb=("top", "--cluster"), rows=8, columns=40)
    p.wait_until(lambda: [line[:7] for line in p.lines()[:3]] == ["cluster", "", "address"] or None, "no header")
    p.check("lines wrap", sum(line.startswith(("1:", "2:", "3:")) for line in p.lines()[3:]) == len(p.lines()) - 3)
    p.type("q")
    ended = p.end()
    p.check(f"q ended top with {ended}", ended == 0)


def case_commands(start):
    """A file is evaluated, a block edited, a session saved and run again."""
    with open("block.lua", "w", encoding="utf-8") as f:
        f.write("local sum = 0\nfor i = 1, 10 do sum = sum + i end\nreturn sum\n")
    with open("editor.sh", "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\nsed -i 's/55/56/' \"$1\"\n")
    os.chmod("editor.sh", 0o755)
    p = start(environment={"EDITOR": os.path.abspath("editor.sh"), "VISUAL": os.path.abspath("editor.sh")})
    p.shows(PROMPT)
    p.type("\\i block.lua\r")
    p.shows("^55$", where=-2)
    p.type("\\i nosuch.lua\r")
    p.shows("nosuch.lua", where=-2)
    p.type("seen = 55 return seen\r")
    p.shows("^55$", where=-2)
    p.type("\\e\r")
    p.shows("^56$", where=-2)
    p.type("\x1b[A\r")  # what was edited is recalled
    p.shows(r"> seen = 56 return seen\n56$", where=None)
    p.shows(PROMPT)
    p.type("@all seen == nil and 1 or seen\r")
    p.shows("^n1: 56$", where=None)
    p.shows(PROMPT)
    p.type("\\s saved.lua\r")
    p.shows(r"5 lines are in saved\.lua", where=-2)
    p.type("\\nosuch\r")
    p.shows("no command of the prompt", where=-2)
    p.type("\\q\r")
    p.ends_well()
    with open("saved.lua", encoding="utf-8") as saved:
        again = subprocess.run(sys.argv[1:2] + ["attach", sys.argv[2]], stdin=saved, capture_output=True, check=False)
    p.check(f"the saved session says {again}", again.stdout.split() == b"55 55 56 56".split() + [b'{"n1":56,"n2":1}'])


def case_pager(start):
    """A whole value goes to the pager and the prompt comes back; text cannot reach the terminal through it."""
    p = start(environment={"PAGER": "cat"})
    p.shows(PROMPT)
    p.type("full((function() local t = {} for i = 1, 60 do t[i] = {{{{{i}}}}} end return t end)())\r")
    p.shows(r"\{\{\{\{\{60\}\}\}\}\}", where=None)
    p.shows(PROMPT)
    p.type("full('a\\27[2J')\r")
    p.shows(r"a\\x1b\[2J", where=None)
    p.shows(PROMPT)
    p.type("6 * 7\r")
    p.shows(r"^42$", where=-2)
    p.type("\x04")
    p.ends_well()
    p = start(environment={"PAGER": "/nonexistent/pager"})
    p.shows(PROMPT)
    p.type("full{1, 2, 3}\r")
    p.shows(r"\{1, 2, 3\}", where=None)
    p.shows(PROMPT)
    p.type("\x04")
    p.ends_well()


def case_tap(start):
    """Messages appear while they come; Ctrl-C ends it; an actor that dies is told."""
    p = start()
    p.shows(PROMPT)
    p.type("tap('n2/agent')\r")
    p.shows(r"n2/agent: \d+ messages")
    other = start("-e", "for i = 1, 5 do core.call(core.whereis 'n2/agent', {op = 'events'}) core.sleep(0.1) end")
    if other.end() != 0:
        other.fail("the other one failed")
    p.shows(r'call +control .* \{op = "events"\}', where=None)
    p.type("\x03")
    p.shows("cancelled", where=None)
    p.shows(PROMPT)
    source = "local core = require 'tide.core' while true do local m = core.receive(0.2) "
    source += "if m then error 'boom' end end"
    p.type(f'm = core.spawn{{name = "mortal", source = "{source}", chunk = "=mortal"}}\r')
    p.shows(PROMPT)
    p.type("core.fiber(function() core.sleep(0.5) core.send(m, 'die') end) tap('n1/mortal')\r")
    p.shows(r"n1/mortal: 1 messages.*it has ended", where=None)
    p.shows(PROMPT)
    p.type("tap('n1/mortal')\r")
    p.shows("no actor `n1/mortal`", where=None)
    p.shows(PROMPT)
    p.type("\x04")
    p.ends_well()


def case_roles(start):
    """A session that may only look says so in its prompt."""
    p = start("--role", "read")
    p.shows(r" \(read\)> ?$")
    p.shows(r"cluster .* nodes up +on n1 as read +\? for help", where=0)
    p.type("policy.swap 'batching/boa'\r")
    p.shows(r"T0801.*policy\.swap needs role operate", where=None)
    p.type("#nodes() > 0\r")
    p.shows(r"^true$", where=-2)
    p.type("core.k\t")
    p.shows(r"core\.k$")
    p.type("\x03")
    p.shows(PROMPT)
    p.type("\x04")
    p.ends_well()


def main():
    tide, cluster, case = sys.argv[1:4]
    globals()["case_" + case](lambda *words, **o: Person(tide, cluster, *words, **o))
    print(f"ok: {case}")


if __name__ == "__main__":
    main()
