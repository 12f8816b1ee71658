#!/usr/bin/env python3
"""Drives the prompt of `tide attach` through a pseudo-terminal as a person would.

Usage: console.py TIDE CLUSTER CASE. Each case types, waits for what the screen shows, and fails with the transcript.
No wait is a measurement: all have the same generous limit.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

LIMIT_S = float(os.environ.get("CONSOLE_LIMIT_S", "20"))
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>()][0-9AB]?|\x07")


class Prompt:
    def __init__(self, tide, cluster, *words, rows=24, columns=80, verb=("attach",)):
        self.transcript = b""
        self.at = 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.setdefault("TERM", "xterm")
            os.environ.setdefault("LC_ALL", "C.UTF-8")
            os.environ["NO_COLOR"] = "1"
            os.execv(tide, [tide, *verb, cluster, *words])
        self.size(rows, columns)

    def size(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            got = os.read(self.fd, 65536)
        except OSError:
            return False
        self.transcript += got
        return bool(got)

    def plain(self):
        return ESCAPES.sub(b"", self.transcript[self.at:]).decode("utf-8", "replace").replace("\r", "")

    def expect(self, pattern):
        """Waits until the screen has shown the pattern since the last expectation."""
        end = time.monotonic() + LIMIT_S
        while True:
            found = re.search(pattern, self.plain(), re.M)
            if found:
                self.at = len(self.transcript)
                return found
            if time.monotonic() > end or not self.read(0.1):
                self.fail(f"waited in vain for /{pattern}/")

    def type(self, keys):
        os.write(self.fd, keys if isinstance(keys, bytes) else keys.encode())

    def line(self, text, pattern):
        self.type(text + "\r")
        return self.expect(pattern)

    def end(self):
        """Ends the prompt; its exit code."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while select.select([self.fd], [], [], 0)[0] and self.read(0):
                    pass  # what it wrote last
                return os.waitstatus_to_exitcode(status)
            self.read(0.05)
        os.kill(self.pid, signal.SIGKILL)
        self.fail("the prompt did not end")

    def ends_well(self):
        code = self.end()
        if code != 0:
            self.fail(f"the prompt ended with exit code {code}")

    def fail(self, why):
        print(f"FAILED: {why}\n---- transcript\n{self.transcript.decode('utf-8', 'replace')[-3000:]}")
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        sys.exit(1)


PROMPT = r"> $"


def case_typing(start):
    p = start()
    p.expect(PROMPT)
    p.line("1+1", r"^2\n(.|\n)*> $")
    p.line("x = {1, 2, 3}", PROMPT)
    p.line("#x", r"^3\n(.|\n)*> $")
    p.line("_ + 4", r"^7\n(.|\n)*> $")
    p.type("40 + 3\b2\r")
    p.expect(r"^42\n(.|\n)*> $")
    p.line("'größe'", r'^"größe"\n(.|\n)*> $')
    p.type("1 + 10" + "\x1b[D" * 2 + "4\r")  # cursor keys: 1 + 410
    p.expect(r"^411\n(.|\n)*> $")
    p.line("print(1) print 'two'", r"^1\ntwo\n(.|\n)*> $")
    p.line("nosuch.field", r"error\[T\d+\].*\n(.|\n)*> $")
    p.line("for for", r"error\[T0201\].*\n(.|\n)*> $")
    p.line("return '\\27[2J'", r"\\x1b\[2J")
    p.line("node.name", r'^"n1"\n(.|\n)*> $')
    p.line("@all 6*7", r"^n1 n2: 42\n(.|\n)*> $")
    p.type("\x04")
    p.ends_well()


def case_multi_line(start):
    p = start()
    p.expect(PROMPT)
    p.line("for i = 1, 3 do", r"\.\.\.> $")
    p.line("print('i' .. i)", r"\.\.\.> $")
    p.line("end", r"^i1\ni2\ni3\n(.|\n)*> $")
    p.line("function f(", r"\.\.\.> $")
    p.line("", r"\.\.\.> $")
    p.line("", PROMPT)
    p.line("5", r"^5\n(.|\n)*> $")
    block = "total = 0\n" + "".join(f"total = total + {i}\n" for i in range(200)) + "return total"
    p.type(b"\x1b[200~" + block.replace("\n", "\r").encode() + b"\x1b[201~")
    p.type("\r")
    p.expect(r"^19900\n(.|\n)*> $")
    p.type(b"\x1b[200~function g()\r\treturn 77\rend\x1b[201~\r")
    p.expect(PROMPT)
    p.line("g()", r"^77\n(.|\n)*> $")
    p.type("\x1b[A\x1b[A\x1b[A\r")  # the block is recalled whole: the pasted sum
    p.expect(r"^19900\n(.|\n)*> $")
    p.line(r"\q", "")
    p.ends_well()


def case_history(start):
    p = start()
    p.expect(PROMPT)
    p.line("1111 + 1", r"^1112\n(.|\n)*> $")
    p.line(" 2222 + 1", r"^2223\n(.|\n)*> $")
    p.line("my_token = 3", PROMPT)
    p.type("\x04")
    p.ends_well()
    path = os.environ["XDG_STATE_HOME"] + "/tide/history.jsonl"
    assert os.stat(path).st_mode & 0o777 == 0o600, oct(os.stat(path).st_mode)
    kept = open(path).read()
    assert "1111 + 1" in kept and "2222" not in kept and "my_token" not in kept, kept
    p = start()
    p.expect(PROMPT)
    p.type("\x1b[A\r")
    p.expect(r"^1112\n(.|\n)*> $")
    p.type("\x12" + "1111")
    p.expect("1111")
    p.type("\r")
    p.expect(r"^1112\n(.|\n)*> $")
    p.type("\x04")
    p.ends_well()


def case_completion(start):
    p = start()
    p.expect(PROMPT)
    p.type("nod\t")
    p.expect(r"node")
    p.type("\t")
    p.expect(r"node +nodes")
    p.type("s()\r")
    p.expect(r"n2(.|\n)*> $")
    p.type("policy.swa\t")
    p.expect(r"policy\.swap")
    p.type("(\t")
    p.expect(r"policy\.swap\(ref, \{params=, guard=")
    p.type("\x03")
    p.expect(PROMPT)
    # Completion runs nobody's code.
    p.line("trap = setmetatable({alpha = 1}, {__index = function() while true do end end})", PROMPT)
    p.type("trap.al\t")
    p.expect(r"trap\.alpha")
    p.type("\x03")
    p.expect(PROMPT)
    p.line("?policy.swap", r"policy\.swap\(ref(.|\n)*in the place of(.|\n)*> $")
    p.line("T0501?", r"T0501: cluster or node unreachable(.|\n)*> $")
    p.line("?", r"ten things(.|\n)*> $")
    p.line(r"\?", r"\\q +leave(.|\n)*> $")
    p.line("top{sotr = 'x'}", r"no field `sotr`(.|\n)*did you mean `sort`(.|\n)*> $")
    p.type("\x04")
    p.ends_well()


LOOPS = {
    "endless": "while true do end",
    "pcall": "while true do pcall(function() while true do end end) end",
    "xpcall": "while true do xpcall(error, function() while true do end end) end",
    "coroutine": "while true do coroutine.wrap(function() while true do end end)() end",
    "coroutines": "function deep(n) if n == 0 then while true do end end local c = coroutine.create(deep) "
                  "while true do coroutine.resume(c, n - 1) c = coroutine.create(deep) end end deep(4)",
    "index": "local t = setmetatable({}, {__index = function() while true do end end}) while true do pcall(function() return t.x end) end",
    "sort": "table.sort({3, 1, 2, 5, 4}, function() while true do end end)",
    "find": "return ('a'):rep(3000):find('a-a-a-b')",
    "close": "while true do local x <close> = setmetatable({}, {__close = function() while true do end end}) end",
    "sleep": "core.sleep(1000)",
    "spawn": "local h = tide.spawn(function() while true do end end) h:wait()",
    "everywhere": "@all while true do end",
}


def case_cancel(start):
    p = start()
    p.expect(PROMPT)
    for name, loop in LOOPS.items():
        p.type(loop + "\r")
        time.sleep(0.3)
        p.type("\x03")
        p.expect(r"(cancelled after|T0230)(.|\n)*> $")
        p.line(f"'{name}' .. 1", rf'^"{name}1"\n(.|\n)*> $')
    p.line("setmetatable({}, {__gc = function() while true do end end})", r"__gc(.|\n)*> $")
    p.type("while true do\x03")  # at the prompt: the line is given up
    p.expect(PROMPT)
    p.line("#nodes() >= 2", r"^true\n(.|\n)*> $")
    p.type("\x04")
    p.ends_well()


def case_limits(start):
    p = start()
    p.expect(PROMPT)
    p.line("t = {} for i = 1, 1000000 do t[i] = i end return t", r"999950 more(.|\n)*> $")
    p.line("t = nil for i = 1, 100000 do print('a line of output', i) end", r"more: more\(\)(.|\n)*> $")
    p.line("local c = {} c.c = c return c", r"<1>(.|\n)*> $")
    p.line("setmetatable({}, {__tostring = function() while true do end end})", r"\{\}(.|\n)*> $")
    p.line("('x'):rep(1 << 30)", r"1 MiB(.|\n)*> $")
    p.line("b = {} while true do b[#b + 1] = ('x'):rep(1000000) .. #b end", r"memory(.|\n)*> $")
    p.line("b = nil return 8", r"^8\n(.|\n)*> $")
    p.type("\x04")
    p.ends_well()


def case_detach(start):
    """A node that stands still cannot cancel: a second Ctrl-C gives the prompt back."""
    p = start()
    p.expect(PROMPT)
    pids = open(os.environ["XDG_RUNTIME_DIR"] + "/tide/" + sys.argv[2] + "/pids").read().split("\n")
    first_node = int(pids[1].split()[0])
    p.type("kept = 3 while true do core.sleep(0.01) end\r")
    time.sleep(0.3)
    os.kill(first_node, signal.SIGSTOP)
    try:
        p.type("\x03")
        time.sleep(0.3)
        p.type("\x03")
        p.expect(r"left to itself(.|\n)*> $")
    finally:
        os.kill(first_node, signal.SIGCONT)
    p.expect(r"evaluation 1 has ended: cancelled")
    p.line("#jobs()", r"^1\n(.|\n)*> $")
    p.line(r"\fg 1", r"cancelled after(.|\n)*> $")
    p.line(r"\fg 77", r"no evaluation 77(.|\n)*> $")
    p.line("kept", r"^3\n(.|\n)*> $")
    p.line(r"\drop", r"new session(.|\n)*> $")
    p.line("kept == nil", r"^true\n(.|\n)*> $")
    p.type("\x04")
    p.ends_well()


def case_watch(start):
    p = start()
    p.expect(PROMPT)
    p.type("n = 0\r")
    p.expect(PROMPT)
    p.type("watch(function() n = n + 1 return n end, {every = 0.2})\r")
    p.expect(r"value +3 ")
    p.type("\x03")
    p.expect(r"cancelled(.|\n)*> $")
    p.size(30, 40)
    p.type("1")
    p.size(50, 200)
    p.type("+1\r")
    p.expect(r"^2\n(.|\n)*> $")
    p.line("%time 1+1", r"^0\.\d+ s\n2\n(.|\n)*> $")
    p.type("\x04")
    p.ends_well()


def main():
    tide, cluster, case = sys.argv[1:4]
    globals()["case_" + case](lambda *words: Prompt(tide, cluster, *words))
    print(f"ok: {case}")


if __name__ == "__main__":
    main()
