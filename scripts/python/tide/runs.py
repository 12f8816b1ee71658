"""Runs of a cluster. The keeper of runs is asked for them; the program `tide` submits scripts, with their modules."""
from __future__ import annotations

import ctypes
import json
import os
import subprocess
import time
from typing import Any, Iterator, Optional

from . import _library as lib, errors


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


def _report(value: Any) -> Any:
    """Dictionaries of an answer as reports, at all depths."""
    if isinstance(value, dict):
        return Report({key: _report(one) for key, one in value.items()})
    return [_report(one) for one in value] if isinstance(value, list) else value


class Run:
    """A run by its name."""

    def __init__(self, runs: "Runs", name: str):
        self._runs, self.name = runs, name

    def show(self) -> dict:
        """State, slots, params and figures as of now."""
        return self._runs._send(op="get", name=self.name, memory=True)

    def wait(self, timeout: Optional[float] = None) -> dict:
        """Waits until it ends, and shows it; raises ActorError if it failed, was stopped or is lost."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK_S if until is None else min(_LOOK_S, until - time.monotonic())
            code, row = self._runs._wait(self.name, max(left, 1e-3))
            if code == 0:
                break
            if lib.error_name(code) != b"ETIMEDOUT" or until is not None and time.monotonic() >= until:
                raise errors.of_code(code)
        if row.exit:
            why = row.why.decode("utf-8", "replace")
            raise errors.ActorError(f"{self.name}: {row.state.decode()}" + (f", {why}" if why else ""), "EREFUSED")
        return self.show()

    def set(self, **params: Any) -> None:
        """Changes params from the next report on."""
        self._runs._do(self.name, "set", *(f"{k}={_text(v)}" for k, v in params.items()))

    def stop(self, within: Optional[float] = None) -> None:
        """Stops it at its next report; by force after `within` seconds."""
        self._runs._do(self.name, "stop", *([f"within_s={within}"] if within else []))

    def pause(self) -> None:
        self._runs._do(self.name, "pause")

    def resume(self) -> None:
        """Continues a paused one; of one that has ended a new run from its newest checkpoint."""
        if self.show().get("ended_at") is not None:
            self._runs._ask("job", "resume", self.name)
        else:
            self._runs._do(self.name, "resume")

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
        self._client, self._keeper = client, client.actor("runs")

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
        return self._send(op="list", all=all).runs

    def get(self, name: str) -> Run:
        """A run by its name."""
        return Run(self, name)

    def _send(self, **request: Any) -> Any:
        return _report(self._keeper.send(request))

    def _wait(self, name: str, timeout: float):
        row = lib.Run(size=ctypes.sizeof(lib.Run))
        return lib.run_wait(self._client._open(), name.encode(), int(timeout * 1e9), ctypes.byref(row)), row

    def _do(self, name: str, verb: str, *params: str) -> None:
        words = (ctypes.c_char_p * len(params))(*(word.encode() for word in params))
        self._client._check(lib.run_do(self._client._open(), name.encode(), verb.encode(), words, len(params), 0))

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
