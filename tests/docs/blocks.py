#!/usr/bin/env python3
"""Runs what the pages show: blocks.py TIDE [PAGE...]. Lua blocks run under `tide sim`, lines of shell blocks one after the
other in a directory of the page, where a cluster may stand; output that a page shows is compared.

A Lua block that is no whole script has a file in around/, whose first line names page and first line of the block:

    -- docs/guides/actors.md: for c in g:changes(60) do

A Lua file has the block where it says @block@; a shell file finds it as block.lua. `--> text` behind a line of a block is
a line of what it prints. What cannot run here has a marker before its fence, and NOT_RUN may only get smaller:

    <!-- not run: needs two machines -->
    <!-- run by tests/installed.sh -->

A block behind `<!-- file: NAME -->` is not run: it is written as that file, in its place among the lines of the page.
"""
import concurrent.futures
import glob
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NOT_RUN = 5
SHELVES = ("docs", "docs/tutorial", "docs/guides", "docs/internals")
SPENT = {}  # seconds, by line or block
LIMIT_S = 120
PATIENCE_S = 20
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import pages  # noqa: E402  (what the lines of pages find)


class Wrong(Exception):
    pass


# ---- reading ---------------------------------------------------------------------------------------------------------

def blocks_of(path):
    """Blocks of a page: language, first line, text, marker before it."""
    found, block, marker = [], None, None
    with open(os.path.join(ROOT, path), encoding="utf-8") as page:
        for number, line in enumerate(page, 1):
            fence = re.match(r"\s*```(.*)$", line)
            if fence and block is None:
                block = {"page": path, "language": fence[1].strip(), "line": number + 1, "text": "", "marker": marker}
            elif fence:
                found.append(block)
                block = marker = None
            elif block is not None:
                block["text"] += line
            else:
                comment = re.match(r"<!-- (not run: .+|run by \S+|file: \S+) -->$", line.strip())
                marker = comment[1] if comment else marker if not line.strip() else None
    return found


def read_around():
    found = {}
    for path in sorted(glob.glob(os.path.join(HERE, "around", "*"))):
        with open(path, encoding="utf-8") as file:
            head, text = file.readline(), file.read()
        page, first = re.match(r"(?:--|#) (\S+): (.*)$", head).groups()
        found[page, first] = {"path": path, "text": text, "used": False}
    return found


# ---- what is printed -------------------------------------------------------------------------------------------------

UNITS = r"(?:[kMGT]?i?B|[munµ]?s|min|h|%|k|M|G)"


def skeleton(line):
    """A line without what differs from run to run: numbers, with their units, ids, and how wide they make columns."""
    line = re.sub(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b|(?<=driver-)(?:\d{6}-)?[0-9a-f]{4}\b|(?<=hash )[0-9a-f]{16}\b", "#", line)
    line = re.sub(r"(?:(?<=[\s(,:={])|^)[-+]?(?:\d[\d.,:e+x-]*|nan|inf)(?:\s?" + UNITS + r")?(?![\w])", "#", line)
    line = re.sub(r"\d+", "#", line)
    return " ".join(re.sub(r"#(?:[\s,]*#)+", "#", line).split())


def compare(shown, printed, what):
    """Each shown line is a line of what was printed, in the same order; behind ` ...` a line was cut."""
    lines, at = [skeleton(line) for line in printed.splitlines()], 0
    for line in filter(None, (skeleton(line) for line in shown)):
        if line == "...":
            continue
        cut = line.removesuffix(" ...")
        fits = (i for i in range(at, len(lines)) if lines[i] == line or cut != line and lines[i].startswith(cut))
        at = next(fits, -1) + 1
        if at == 0:
            raise Wrong(f"{what}: no line `{line}` in\n{printed}")


# ---- running ---------------------------------------------------------------------------------------------------------

class Place:
    """A directory with what the lines of a page find, and processes that stay until it is left."""

    def __init__(self, name):
        self.path = tempfile.mkdtemp(prefix=f"tide-docs-{name}-")
        self.stays = []
        os.mkdir(f"{self.path}/bin")
        os.mkdir(f"{self.path}/run", 0o700)
        os.symlink(TIDE, f"{self.path}/bin/tide")
        for name in ("examples", "bench", "scripts", "tests", "runtime"):
            os.symlink(f"{ROOT}/{name}", f"{self.path}/{name}")
        self.environment = dict(os.environ, PATH=f"{self.path}/bin:" + os.environ["PATH"], XDG_RUNTIME_DIR=f"{self.path}/run",
                                XDG_STATE_HOME=f"{self.path}/state", XDG_CONFIG_HOME=f"{self.path}/config", HOME=self.path,
                                PAGER="cat", PKG_CONFIG_PATH=os.path.dirname(os.path.realpath(TIDE)))
        for name in ("TIDE_CLUSTER", "TIDE_KEYS", "TIDE_LOG"):
            self.environment.pop(name, None)

    def __enter__(self):
        return self

    def end_stays(self, first=0):
        for process in reversed(self.stays[first:]):
            process.send_signal(signal.SIGTERM)
        for process in self.stays[first:]:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        del self.stays[first:]

    def __exit__(self, *_):
        self.end_stays()
        base = f"{self.path}/run/tide"
        for name in os.listdir(base) if os.path.isdir(base) else []:
            self.bash(f"tide down {name} -y --timeout 20s", check=False)
        shutil.rmtree(self.path, ignore_errors=True)

    def bash(self, line, check=True, good=(0,)):
        try:
            done = subprocess.run(["bash", "-c", line], cwd=self.path, env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired as late:
            raise Wrong(f"`{line}` takes longer than {LIMIT_S} s:\n{(late.stdout or b'').decode()[-2000:]}") from None
        if check and done.returncode not in good:
            raise Wrong(f"`{line}` ended with {done.returncode}:\n{done.stdout[-3000:]}")
        return done.stdout

    def stay(self, line):
        """In the background until the page's end."""
        with open(f"{self.path}/stays-{len(self.stays)}.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(["bash", "-c", "exec " + line], cwd=self.path, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.stays.append(process)
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            return ""
        with open(log.name, encoding="utf-8") as said:
            raise Wrong(f"`{line}` does not stay:\n{said.read()}")

    def until_interrupted(self, line):
        process = subprocess.Popen(["bash", "-c", "exec " + line], cwd=self.path, env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            process.wait(1.5)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[0]
        if process.returncode not in (0, 130, -2):
            raise Wrong(f"`{line}` ended with {process.returncode}:\n{said}")
        return said

    def at_terminal(self, line, keys):
        """As a person who leaves as soon as the prompt is there."""
        if NO_TERMINAL:
            print(f"left out: `{line}`: {NO_TERMINAL}")
            return ""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.path)
            os.execvpe("bash", ["bash", "-c", "exec " + line], self.environment)
        said, sent, end = b"", False, time.monotonic() + 30
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.5)[0]:
                try:
                    piece = os.read(terminal, 65536)
                except OSError:
                    piece = b""
                if not piece:
                    break
                said += piece
            if not sent and re.search(rb"> ?(\x1b[^\n]*)?$|q quits|\bq\b", said[-400:]):
                sent = True
                os.write(terminal, keys)
        else:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(terminal)
        if status != 0:
            raise Wrong(f"`{line}` ended with {status}:\n{said.decode(errors='replace')[-2000:]}")
        return said.decode(errors="replace")


def why_no_terminal():
    """Why this machine has no pseudo-terminals (a chroot without /dev/pts), or None."""
    try:
        for end in os.openpty():
            os.close(end)
    except OSError as error:
        return f"no pseudo-terminals here ({error})"
    return None


NO_TERMINAL = why_no_terminal()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def smaller(line):
    """The line with options that make examples short, where it does not name them itself."""
    for script, options in pages.SMALL.items():
        if f"examples/{script}" in line and "--help" not in line:
            words = options.split()
            for name, value in zip(words[::2], words[1::2]):
                if not re.search(rf"{name}\b", line.partition(script)[2]):
                    line = re.sub(r"(\s#.*)?$", f" {name} {value}", line, count=1)
    return line


def run_line(place, line, o):
    for old, new in o["replaced"].items():
        line = line.replace(old, new)
    command = re.sub(r"(?:^|\s+)#(?:\s.*)?$", "", line)
    if not command.strip():
        return ""
    command = smaller(re.sub(r"\bbuild/tide\b", "tide", command))
    for pattern, how in pages.HOW:
        if re.search(pattern, command):
            if how == "stays":
                return place.stay(command.removesuffix(" &"))
            if how == "interrupted":
                return place.until_interrupted(command)
            if how.startswith("keys "):
                return place.at_terminal(command, how[5:].encode() + b"\r")
            if how.startswith("exit "):
                return place.bash(command, good=(0, int(how[5:])))
    exported = re.match(r"export (.*)$", command)
    if exported:
        place.environment.update(word.split("=", 1) for word in exported[1].split())
        return ""
    return place.bash(command)


def run_and_compare(place, line, shown, o):
    """Runs a line; one that looks at a cluster is run again until what the page shows is there."""
    until = time.monotonic() + (PATIENCE_S if shown and re.search(pages.LOOKS, line) else 0)
    while True:
        said = run_line(place, line, o)
        try:
            return compare(shown, said, line)
        except Wrong:
            if time.monotonic() > until:
                raise
        time.sleep(0.3)


def run_shell_page(path, blocks):
    """Runs all shell blocks of a page in order; failures."""
    problems = []
    name = os.path.basename(path)[:-3]
    o = dict(pages.PAGES.get(name, {}))
    ports = {}

    def with_ports(line):
        return re.sub(r"(tcp:[\d.]+:|--port )(\d{4,5})\b",
                      lambda found: found[1] + str(ports.setdefault(found[2], free_port())), line)
    with Place(name) as place:
        o["replaced"] = {"10.0.0.4": "127.0.0.1", "10.0.0.5": "127.0.0.1", **o.get("replaced", {})}
        try:
            for made in o.get("makes", ()):
                pages.make(place, made)
            for line in o.get("before", ()):
                run_line(place, with_ports(line), o)
        except Wrong as wrong:
            return [f"{path}: preparing: {wrong}"]
        stood = len(place.stays)
        for block in blocks:
            if block["language"] != "sh":
                target = f"{place.path}/{block['marker'][6:]}"
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "w", encoding="utf-8") as file:
                    file.write(block["text"])
                continue
            joined = re.sub(r"\\\n\s*", " ", block["text"])
            prompts = re.search(r"^\$ ", joined, re.M)
            lines, shown = [], {}
            for line in joined.splitlines():
                if not prompts or line.startswith("$ "):
                    lines.append(line.removeprefix("$ "))
                elif lines:
                    shown.setdefault(len(lines) - 1, []).append(line)
            for i, line in enumerate(lines):
                began = time.monotonic()
                try:
                    run_and_compare(place, with_ports(line), shown.get(i, ()), o)
                    SPENT[f"{path}: {line.strip()[:60]}"] = time.monotonic() - began
                except Wrong as wrong:
                    problems.append(f"{path}:{block['line']}: {wrong}")
                except Exception as wrong:  # pylint: disable=broad-except
                    problems.append(f"{path}:{block['line']}: `{line}`: {wrong!r}")
            place.end_stays(stood)
    return problems


def expected_lines(text):
    return [" ".join(found.split()) for found in re.findall(r"--> (.*)$", text, re.M)]


def run_lua(block, around):
    where = f"{block['page']}:{block['line']}"
    with Place(os.path.basename(block["page"])[:-3]) as place:
        text = block["text"]
        for old, new in pages.LUA_REPLACED.get(os.path.basename(block["page"])[:-3], {}).items():
            text = text.replace(old, new)
        try:
            for made in pages.LUA_MAKES.get(os.path.basename(block["page"])[:-3], ()):
                pages.make(place, made)
            if around and around["path"].endswith(".sh"):
                with open(f"{place.path}/block.lua", "w", encoding="utf-8") as file:
                    file.write(text)
                said = place.bash("set -eu\n" + around["text"])
            else:
                verb = "sim --seed 7"
                if around:
                    indent = re.search(r"^( *)@block@", around["text"], re.M)[1]
                    text = around["text"].replace(indent + "@block@", re.sub(r"^(?=.)", indent, text, flags=re.M))
                    if "\n-- by tide run\n" in "\n" + around["text"]:
                        verb = "run"
                with open(f"{place.path}/block.lua", "w", encoding="utf-8") as file:
                    file.write(text)
                said = place.bash(f"tide {verb} block.lua")
            lines = [" ".join(re.sub(r"^\[\w+ #\d+\] ", "", line).split()) for line in said.splitlines()]
            for line in expected_lines(block["text"] + (around or {"text": ""})["text"]):
                if line not in lines:
                    raise Wrong(f"no line `{line}` in\n{said[-3000:]}")
        except Wrong as wrong:
            return [f"{where}: {wrong}"]
    return []


def main():
    wanted = sys.argv[2:] or ["README.md"] + sorted(os.path.relpath(p, ROOT) for folder in SHELVES
                                                     for p in glob.glob(f"{ROOT}/{folder}/*.md"))
    around, problems, not_run, elsewhere, tasks = read_around(), [], [], [], []
    counts = {"lua": 0, "sh": 0}
    for path in wanted:
        shell = []
        for block in blocks_of(path):
            first = block["text"].split("\n", 1)[0]
            where = f"{path}:{block['line']}"
            if block["marker"] and block["marker"].startswith("not run"):
                not_run.append(f"{where}: {block['marker'][9:]}")
            elif block["marker"] and block["marker"].startswith("file: "):
                shell.append(block)
            elif block["marker"]:
                elsewhere.append(f"{where}: {block['marker']}")
                if not os.path.exists(os.path.join(ROOT, block["marker"][7:])):
                    problems.append(f"{where}: there is no {block['marker'][7:]}")
            elif block["language"] == "lua":
                known = around.get((path, first))
                if known:
                    known["used"] = True
                counts["lua"] += 1
                tasks.append((run_lua, block, known))
            elif block["language"] == "sh":
                counts["sh"] += 1
                shell.append(block)
        if shell:
            tasks.insert(0, (run_shell_page, path, shell))

    def timed(task):
        began = time.monotonic()
        found = task[0](*task[1:])
        if task[0] is run_lua:
            SPENT[f"{task[1]['page']}:{task[1]['line']}"] = time.monotonic() - began
        return found
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("DOCS_JOBS", "3"))) as pool:
        for found in pool.map(timed, tasks):
            problems += found
    if len(sys.argv) == 2:
        problems += [f"{os.path.relpath(a['path'], ROOT)}: no page has this block" for a in around.values() if not a["used"]]
        if len(not_run) != NOT_RUN:
            problems.append(f"{len(not_run)} blocks are not run, {NOT_RUN} were: "
                            + ("run them" if len(not_run) > NOT_RUN else "lower NOT_RUN"))
    for line in not_run:
        print("not run:", line)
    for line in elsewhere:
        print("run elsewhere:", line)
    slowest = sorted(SPENT.items(), key=lambda item: -item[1])[:int(os.environ.get("DOCS_LONGEST", "6"))]
    for name, seconds in slowest:
        print(f"longest: {seconds:.1f} s {name}")
    for problem in problems:
        print("FAILED:", problem)
    print(f"{counts['lua']} Lua blocks and {counts['sh']} shell blocks run, {len(not_run)} not")
    return 1 if problems else 0


if __name__ == "__main__":
    TIDE = os.path.realpath(sys.argv[1])
    sys.exit(main())
