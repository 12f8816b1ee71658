"""Tide's clients: rows of a running cluster's tables, calls to its actors, its runs.

>>> import tide
>>> with tide.connect("lab", right="operate") as c:
...     factors = c.table("factors")
...     rows = factors.pull([3, 7])              # float32, one row a key
...     factors.push([3, 7], rows * -0.1)

docs/guides/clients.md is the guide; tide.aio has tables and actors for asyncio, tide.torch an embedding for PyTorch.
"""
from .client import Actor, Client, Line, Operation, Stream, Table, connect, wait
from .errors import (ActorError, BusyError, ClosedError, ConnectionError, DiedError, Error, KeyRangeError, LostError,
                     PermissionError, TimeoutError, UsageError, VersionError)
from .runs import Report, Run

__version__ = "0.1.0"
__all__ = ["Actor", "ActorError", "BusyError", "Client", "ClosedError", "ConnectionError", "DiedError", "Error",
           "KeyRangeError", "Line", "LostError", "Operation", "PermissionError", "Report", "Run", "Stream", "Table",
           "TimeoutError", "UsageError", "VersionError", "connect", "wait"]
