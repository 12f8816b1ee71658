"""Errors: every one is a tide.Error, with the code of tide/actor.h by its name."""
from . import _library as lib

__all__ = ["Error", "UsageError", "KeyRangeError", "BusyError", "DiedError", "LostError", "ActorError", "VersionError",
           "ClosedError", "TimeoutError", "ConnectionError", "PermissionError"]

_OUTCOMES = {0: "applied", 1: "none", 2: "unknown"}


class Error(Exception):
    """What a client's call failed with.

    name         of the kind: "EBUSY"
    code         of the message, as `tide help CODE` explains it: "T0602"; or None
    message      what happened
    help         the next thing to do, or None
    where        script and line of an actor's error, or None
    node         on which it happened, or None
    retry_after  seconds after which another try is worth it, or None
    outcome      of a push that was sent: "none" (not applied) or "unknown" (each row once or not at all); of other
                 operations likewise; None if the call failed before
    """

    def __init__(self, message="", name="EINVAL", *, code=None, help=None, where=None, node=None, retry_after=None, outcome=None):
        super().__init__(message)
        self.message, self.name, self.code, self.help, self.where = message, name, code, help, where
        self.node, self.retry_after, self.outcome = node, retry_after, outcome

    def __str__(self):
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  help: {self.help}" if self.help else text


class UsageError(Error, ValueError):
    """A wrong argument."""


class KeyRangeError(Error, IndexError):
    """A key that the table does not have."""


class BusyError(Error):
    """All places are taken: `retry_after` says when to try again."""


class DiedError(Error):
    """The actor, or the node that had the request, is gone."""


class LostError(Error):
    """The rows died with their node."""


class ActorError(Error):
    """An actor's method raised."""


class VersionError(Error):
    """Client and cluster are of different versions."""


class ClosedError(Error):
    """The client is closed, or belongs to another process."""


class TimeoutError(Error, TimeoutError):  # noqa: A001
    """No answer before the deadline."""


class ConnectionError(Error, ConnectionError):  # noqa: A001
    """No node of the cluster can be reached."""


class PermissionError(Error, PermissionError):  # noqa: A001
    """The client's right does not suffice."""


_CLASSES = {
    "EINVAL": UsageError, "EMISMATCH": UsageError, "ELIMIT": UsageError, "ENAN": UsageError, "ENOENT": UsageError,
    "ERANGE": KeyRangeError, "EBUSY": BusyError, "EFULL": BusyError, "EDIED": DiedError, "ELOST": LostError,
    "EREFUSED": ActorError, "EVERSION": VersionError, "ECLOSED": ClosedError, "ETIMEDOUT": TimeoutError,
    "EUNREACHABLE": ConnectionError, "EPERM": PermissionError, "EACCES": PermissionError,
}


def _fields(text):
    """(message, fields) of an actor's refusal: lines "  help: .." follow its message."""
    first, *rest = text.split("\n")
    fields = {}
    for line in rest:
        name, colon, value = line.strip().partition(": ")
        if colon and name in ("name", "code", "help", "where", "node", "retry_after_s"):
            fields[name] = value
    return first, fields


def of_code(code, operation=None):
    """The error of a code that a function of the library returned just now on this thread."""
    message, fields = _fields(lib.error().decode("utf-8", "replace"))
    name = lib.error_name(code).decode()
    retry = float(fields.pop("retry_after_s", 0)) or lib.retry_after_ms() / 1000
    fields.pop("name", None)
    outcome = _OUTCOMES.get(lib.outcome(operation)) if operation else None
    return _CLASSES.get(name, Error)(message, name, retry_after=retry or None, outcome=outcome,
                                     **fields)


def of_actor(data):
    """The error that an actor of a script answered with: code, message, help, where, node."""
    where = data.get("where")
    if isinstance(where, dict):
        where = f"{where.get('file')}:{where.get('line')}"
    name = str(data.get("name", "EREFUSED"))
    kind = {"EBUSY": BusyError, "EPERM": PermissionError, "ETIMEDOUT": TimeoutError, "EDIED": DiedError}
    return kind.get(name, ActorError)(str(data.get("message", data)), name, code=data.get("code"),
                                      help=data.get("help"), where=where, node=data.get("node"),
                                      retry_after=data.get("retry_after_s"))
