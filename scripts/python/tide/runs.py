"""Runs of a cluster, by the program `tide`: submitting a script sends its modules and options, which that knows to do."""
from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any, Iterator, Optional

from . import errors


_LOOK_S = 0.25


def _lines(path: str) -> list:
    """Whole lines of a file that grows."""
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line, object_hook=Report) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


class Report(dict):
    """A report of a run: report.loss is report["loss"]."""

    __getattr__ = dict.__getitem__


class Run:
    """A run by its name."""

    def __init__(self, runs: "Runs", name: str):
        self._runs, self.name = runs, name

    def show(self) -> dict:
        """State, slots, params and figures as of now."""
        return self._runs._ask("job", "show", self.name)[0]

    def wait(self, timeout: Optional[float] = None) -> dict:
        """Waits until it ends, and shows it; raises ActorError if it failed, was stopped or is lost."""
        self._runs._ask("job", "wait", self.name, timeout=timeout)
        return self.show()

    def set(self, **params: Any) -> None:
        """Changes params from the next report on."""
        self._runs._ask("job", "set", self.name, *(f"{k}={_text(v)}" for k, v in params.items()))

    def stop(self, within: Optional[float] = None) -> None:
        """Stops it at its next report; by force after `within` seconds."""
        self._runs._ask("job", "stop", self.name, "--yes", *(["--within", f"{within}s"] if within else []))

    def pause(self) -> None:
        self._runs._ask("job", "pause", self.name)

    def resume(self) -> None:
        self._runs._ask("job", "resume", self.name)

    def __iter__(self) -> Iterator[Report]:
        """Its reports, from the first one on, as they come, until it ends."""
        path, done = self._reports(), 0
        while True:
            ended = self.show().get("ended_at") is not None  # asked before: no report comes behind
            reports = _lines(path)
            yield from reports[done:]
            done = len(reports)
            if ended:
                return
            time.sleep(_LOOK_S)

    def log(self, follow: bool = False) -> Iterator[str]:
        """The lines of its log; with `follow` as they come, until it ends."""
        argv = self._runs._argv("job", "logs", *(["--follow"] if follow else []), self.name, text=True)
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, errors="replace") as shown:
            try:
                for line in shown.stdout:
                    yield line.rstrip("\n")
                message = shown.stderr.read()
            finally:
                shown.kill()
        if message.startswith("error"):
            raise errors.ActorError(message.strip(), "EREFUSED")

    def history(self) -> dict:
        """Its reports so far as columns: pandas.DataFrame(run.history())."""
        reports = _lines(self._reports())
        names = sorted({name for report in reports for name in report})
        return {name: [report.get(name) for report in reports] for name in names}

    def _reports(self):
        host = self.show().get("host") or {}
        directory = host.get("directory", "")
        if not os.path.isdir(directory):
            raise errors.UsageError(f"the reports of {self.name} are on the machine of {host.get('node')}, in "
                                    f"{directory}", "EUNSUPPORTED")
        return os.path.join(directory, "reports.jsonl")

    def __repr__(self):
        return f"<tide.Run {self.name}>"


class Runs:
    """The runs of the client's cluster."""

    def __init__(self, client):
        self._client = client

    def submit(self, script: str, *arguments: str, slots: Optional[int] = None, **options: Any) -> Run:
        """Starts a script on the cluster: options are those of the script, `rank=8` is `--rank 8`."""
        words = ["submit"] + (["--slots", str(slots)] if slots else []) + [script, *arguments]
        for name, value in options.items():
            flag = "--" + name.replace("_", "-")
            words += [flag] if value is True else [] if value is False else [flag, _text(value)]
        lines = self._ask(*words)
        return Run(self, lines[0]["name"])

    def list(self, all: bool = False) -> list:  # noqa: A002
        """The runs that go on, or all, as dictionaries."""
        return self._ask("jobs", *(["--all"] if all else []))

    def get(self, name: str) -> Run:
        """A run by its name."""
        return Run(self, name)

    def _argv(self, *words: str, text: bool = False) -> list:
        where = self._client._arguments
        target = where["endpoint"].split(",")[0] if where["endpoint"] else where["cluster"]
        # options of the command stand before a script, whose own follow it
        argv = [os.environ.get("TIDE_PROGRAM", "tide"), words[0]] + ([] if text else ["--json"])
        argv += ["--cluster", target] if target else []
        return argv + (["--keys", where["keys"]] if where["keys"] else []) + list(words[1:])

    def _ask(self, *words: str, timeout: Optional[float] = None) -> list:
        argv = self._argv(*words)
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        except FileNotFoundError:
            raise errors.UsageError(f"the program {argv[0]} is not installed: install the package tide, or set "
                                    "TIDE_PROGRAM", "ENOENT") from None
        except subprocess.TimeoutExpired:
            raise errors.TimeoutError(f"no end after {timeout} s", "ETIMEDOUT") from None
        if done.returncode != 0:
            raise _error(done)
        return [json.loads(line, object_hook=Report) for line in done.stdout.splitlines() if line.strip()]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _error(done) -> errors.Error:
    for line in reversed(done.stderr.splitlines()):
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if isinstance(data, dict):
            return errors.of_actor(data.get("error", data))
    return errors.ActorError(done.stderr.strip() or f"tide ended with {done.returncode}", "EREFUSED")
