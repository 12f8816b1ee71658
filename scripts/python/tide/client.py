"""The blocking client: tide.connect, tables, actors, operations."""
from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
import weakref
from typing import Any, Iterable, Iterator, NamedTuple, Optional

import numpy as np

from . import _arrays, _library as lib, _values, errors
from .runs import Runs

_RIGHTS = {"read": 1, "operate": 2, "admin": 3}
_SLICE_NS = 50_000_000  # Ctrl-C is looked at between waits of so long
_ETIMEDOUT = -10004


def _ns(seconds: Optional[float]) -> int:
    if seconds is None:
        return 0
    if isinstance(seconds, (str, bytes)) or not hasattr(seconds, "__float__"):
        raise TypeError(f"a timeout is a number of seconds, not {type(seconds).__name__}")
    if not seconds > 0:
        raise errors.UsageError(f"a timeout is a number of seconds above 0, not {seconds!r}")
    return max(1, int(min(seconds, 1e8) * 1e9))


def _name(value: Any, what: str) -> bytes:
    """A text for C, which ends at a zero character."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a text, not {type(value).__name__}")
    if "\0" in value:
        raise errors.UsageError(f"{what} has a zero character: {value!r}")
    return os.fsencode(value)


def _whole(value: Any, what: str, most: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is a whole number, not {type(value).__name__}")
    if not 0 < value <= most:
        raise errors.UsageError(f"{what} is 1 to {most}, not {value}")
    return value


class Operation:
    """An operation that goes on: `result()` waits for it. Its arrays are held until it ends.

    held: the arrays; the last one is the result of rows. finish: makes the result of other operations; None: rows.
    """

    __slots__ = ("_handle", "_client", "_held", "_finish", "__weakref__")

    def __init__(self, client, handle, held, finish):
        self._client, self._handle, self._held, self._finish = client, handle, held, finish

    def done(self) -> bool:
        """Has it ended, in whatever way?"""
        return self._handle is None or lib.is_done(self._handle)

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits, and gives what the call would have returned, or raises its error. Once.

        Raises TimeoutError after `timeout` seconds; the operation goes on then, until its own deadline.
        """
        if self._handle is None:
            raise errors.ClosedError("the operation's result was taken already", "ECLOSED")
        until = None if timeout is None else time.monotonic_ns() + _ns(timeout)
        handle = self._handle
        while True:
            left = _SLICE_NS if until is None else min(_SLICE_NS, max(1, until - time.monotonic_ns()))
            code = lib.wait(handle, left)
            if code == 0:
                break
            if lib.is_done(handle):  # since the wait, perhaps, whose code is not the operation's
                code = lib.wait(handle, 1)
                break
            if code == _ETIMEDOUT and until is not None and time.monotonic_ns() >= until:
                raise errors.of_code(code)
        return self._take(code)

    def _take(self, code):
        handle, held, finish = self._handle, self._held, self._finish
        try:
            if code:
                raise errors.of_code(code, handle)
            return finish(handle, held) if finish else held and held[-1]
        finally:  # forgotten before it is freed: Ctrl-C may come between any two lines
            self._handle = self._held = None
            lib.free(handle)

    def cancel(self) -> None:
        """Ends it: nothing is written to its arrays any more."""
        handle, self._handle, self._held = self._handle, None, None
        if handle is not None:
            lib.free(handle)

    def __del__(self):
        self.cancel()

    def __reduce__(self):
        raise TypeError("an operation cannot be pickled")


def wait(operations: Iterable[Operation], timeout: Optional[float] = None) -> list:
    """The results of operations, in their order; raises the first error."""
    until = None if timeout is None else time.monotonic() + timeout
    return [o.result(None if until is None else max(1e-9, until - time.monotonic())) for o in operations]


def _finish_value(handle, _):
    size = ctypes.c_size_t()
    data = lib.answer(handle, ctypes.byref(size))
    return _values.decode(ctypes.string_at(data, size.value))


class Table:
    """Rows of a table of the cluster.

    name   its name
    width  floats of a row
    count  keys of a dense table, 0..count-1; 0: hashed, any key from 0 to 2**63 - 1
    update what a push does: "add", "sgd" ..
    """

    def __init__(self, client: "Client", name: str, handle):
        self._client, self._handle, self.name = client, handle, name
        self.width: int = lib.width(handle)
        self.count: int = lib.key_count(handle)
        self.update: str = lib.update(handle).decode()

    def pull(self, keys, out: Optional[np.ndarray] = None, timeout: Optional[float] = None) -> np.ndarray:
        """The rows of `keys`, of shape keys.shape + (width,).

        keys: contiguous int64 or uint64 are used in place; lists and other integers are copied. out: a float32 array of
        that shape, which is filled and returned. A torch tensor works for both, without a copy.
        """
        return self.pull_async(keys, out, timeout).result()

    def pull_async(self, keys, out=None, timeout: Optional[float] = None) -> Operation:
        """Starts a pull. BusyError: all places of the client are taken."""
        array, shape = _arrays.keys(keys, self.count)
        rows = _arrays.out(out, shape + (self.width,), array)
        result = rows if out is None else out
        return self._client._start(lib.pull, (self._open(), _arrays.pointer(array), array.size, _arrays.pointer(rows)),
                                   timeout, (array, rows, result))

    def push(self, keys, rows, timeout: Optional[float] = None, cast: bool = False) -> None:
        """Applies rows[i] to keys[i] by the table's rule, exactly once while the node that serves this client lives.

        rows: float32 of shape keys.shape + (width,), contiguous; cast=True converts others. The error of a push that
        failed has an `outcome`.
        """
        self.push_async(keys, rows, timeout, cast).result()

    def push_async(self, keys, rows, timeout: Optional[float] = None, cast: bool = False) -> Operation:
        """Starts a push; keys and rows are copied."""
        array, shape = _arrays.keys(keys, self.count)
        data = _arrays.rows(rows, shape + (self.width,), cast)
        return self._client._start(lib.push, (self._open(), _arrays.pointer(array), array.size, _arrays.pointer(data)),
                                   timeout)

    def localize(self, keys, timeout: Optional[float] = None) -> None:
        """Brings the rows to the node that serves this client (tables with technique "relocate")."""
        array, _ = _arrays.keys(keys, self.count)
        self._client._start(lib.localize, (self._open(), _arrays.pointer(array), array.size), timeout).result()

    def _open(self):
        self._client._open()
        return self._handle

    def __repr__(self):
        return f"<tide.Table {self.name}: {self.count or 'hashed'} keys of {self.width} floats, {self.update}>"

    def __reduce__(self):
        raise TypeError("a table cannot be pickled: send its name, and open it there")


def ask_of(method: str, arguments: tuple, timeout: Optional[float]) -> dict:
    """What a published group is asked."""
    request = {"op": "ask", "method": method, "arguments": list(arguments), "count": len(arguments)}
    if timeout is not None:
        request["timeout_s"] = float(timeout)
    return request


def value_of(answer: Any) -> Any:
    """What the method returned, of a group's answer; raises what it raised."""
    if isinstance(answer, dict) and "err" in answer:
        raise errors.of_actor(answer["err"])
    return answer.get("value") if isinstance(answer, dict) else answer


class Actor:
    """An actor of the cluster by its name: "NODE/NAME", or "NAME" wherever it is."""

    def __init__(self, client: "Client", name: str):
        self._client, self.name, self._address = client, name, None

    def _find(self, timeout):
        if self._address is None:
            address = ctypes.c_uint64()
            self._client._check(lib.find(self._client._open(), _name(self.name, "an actor's name"), _ns(timeout), ctypes.byref(address)))
            self._address = address.value
        return self._address

    def send(self, body: Any, timeout: Optional[float] = None) -> Any:
        """Calls with one value, for actors written in C; its answer."""
        try:
            return self.send_async(body, timeout).result()
        except errors.DiedError:
            self._address = None  # it may be published anew elsewhere
            raise

    def send_async(self, body: Any, timeout: Optional[float] = None) -> Operation:
        data = _values.encode(body)
        address = self._find(timeout)
        return self._client._start(lib.call, (self._client._open(), address, data, len(data)), timeout, None,
                                   _finish_value)

    def cast(self, body: Any) -> None:
        """Sends one value; nobody answers."""
        data = _values.encode(body)
        self._client._check(lib.cast(self._client._open(), self._find(None), data, len(data)))

    def call(self, method: str, *arguments: Any, timeout: Optional[float] = None) -> Any:
        """Calls a method of a published group of script actors: one of its members answers."""
        return value_of(self.send(ask_of(method, arguments, timeout), timeout))

    def __repr__(self):
        return f"<tide.Actor {self.name}>"


class Line(NamedTuple):
    """An event that a node saw, or a line of its log. kind: of the event, such as "run"; of a log its level."""

    time: float
    node: str
    kind: str
    text: str
    number: int


class Stream:
    """What happens in the cluster: an iterator over Line, which waits for the next one."""

    def __init__(self, client: "Client", what: str, whole: bool, timeout: Optional[float]):
        self._client, self._timeout, self._lines = client, timeout, []
        self._handle = ctypes.c_void_p()
        self._using = threading.Lock()  # of the handle: one thread may close what another one waits for
        client._check(lib.stream(client._open(), what.encode(), whole, ctypes.byref(self._handle)))

    def next(self, timeout: Optional[float] = None) -> Line:
        """The next one; TimeoutError if there is none for so long (default: without an end)."""
        until = None if timeout is None else time.monotonic_ns() + _ns(timeout)
        while not self._lines:
            self._client._open()
            left = _SLICE_NS if until is None else min(_SLICE_NS, max(1, until - time.monotonic_ns()))
            lines, count = (lib.Line * 64)(), ctypes.c_size_t()
            with self._using:
                if not self._handle:
                    raise errors.ClosedError("the stream is closed", "ECLOSED")
                code = lib.stream_next(self._handle, lines, len(lines), left, ctypes.byref(count))
            if code and (code != _ETIMEDOUT or until is not None and time.monotonic_ns() >= until):
                raise errors.of_code(code)
            self._lines = [Line(x.time, x.node.decode(), x.kind.decode(), x.text.decode("utf-8", "replace"), x.number)
                           for x in lines[:count.value]]
        return self._lines.pop(0)

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        try:
            return self.next(self._timeout)
        except errors.TimeoutError:
            raise StopIteration from None

    def close(self) -> None:
        """Ends it; a thread that waits for the next one gets ClosedError."""
        with self._using:
            handle, self._handle = self._handle, None
        if handle:
            lib.stream_close(handle)

    def __del__(self):
        self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


_clients: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _say_goodbye():
    for client in list(_clients):
        client.close()


class Client:
    """A connection to a cluster; made by tide.connect. Any thread may use it; a forked child opens one of its own."""

    def __init__(self, handle, timeout, arguments):
        self._handle, self._timeout, self._arguments = handle, timeout, arguments
        self._closed = False
        self.runs = Runs(self)
        _clients.add(self)

    def table(self, name: str, timeout: Optional[float] = None) -> Table:
        """A table by its name."""
        handle = ctypes.c_void_p()
        self._check(lib.table(self._open(), _name(name, "a table's name"), _ns(timeout), ctypes.byref(handle)))
        return Table(self, name, handle)

    def actor(self, name: str) -> Actor:
        """An actor by its name; it is looked up at the first call."""
        return Actor(self, name)

    def events(self, whole: bool = False, timeout: Optional[float] = None) -> Stream:
        """What the nodes see happen, as it happens: `for event in c.events(): print(event.node, event.text)`.

        whole: begin with what they still have. timeout: end when nothing has happened for so many seconds.
        """
        return Stream(self, "events", whole, timeout)

    def log(self, whole: bool = False, timeout: Optional[float] = None) -> Stream:
        """The lines that the nodes log, likewise; `kind` is the level."""
        return Stream(self, "log", whole, timeout)

    @property
    def info(self) -> dict:
        """Cluster, serving node, id, right, outstanding operations and their bytes."""
        info = lib.Info(size=ctypes.sizeof(lib.Info))
        self._check(lib.info(self._open(), ctypes.byref(info)))
        return {"up": info.up, "cluster": info.cluster.decode(), "node": info.node.decode(), "id": info.id,
                "right": next((k for k, v in _RIGHTS.items() if v == info.right), None),
                "outstanding": info.outstanding, "bytes": info.bytes, "connects": info.connects,
                "resent": info.resent, "direct": info.direct, "redirected": info.redirected}

    def close(self) -> None:
        """Ends what goes on, in other threads too (ClosedError). A second call does nothing."""
        if not self._closed:
            self._closed = True
            lib.shut(self._handle)

    def __del__(self):  # tables, actors and operations refer to the client: nothing uses it any more
        handle, self._handle = self._handle, None
        if handle is not None:
            lib.close(handle)

    def _open(self):
        if self._closed:
            raise errors.ClosedError("the client is closed", "ECLOSED")
        return self._handle

    def _check(self, code):
        if code:
            raise errors.of_code(code)

    def _start(self, function, arguments, timeout, held=None, finish=None) -> Operation:
        handle = ctypes.c_void_p()
        code = function(*arguments, _ns(timeout), ctypes.byref(handle))
        if code:
            raise errors.of_code(code)
        return Operation(self, handle, held, finish)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        raise TypeError("a client cannot be pickled: open one in each process")

    def __repr__(self):
        try:
            return f"<tide.Client of {self.info['cluster']}>"
        except errors.ClosedError as error:
            return f"<tide.Client: {error.message}>"


def connect(cluster: Optional[str] = None, *, endpoint: Optional[str] = None, keys: Optional[str] = None,
            right: str = "read", timeout: float = 30, connect_timeout: float = 5, outstanding: int = 64,
            memory: int = 64 << 20) -> Client:
    """Connects to a running cluster.

    cluster: its name on this machine (default $TIDE_CLUSTER). endpoint: of any member, or several with commas, such as
    "tcp:10.0.0.7:7000"; other machines need `keys`, a directory of a credential. right: "read", "operate" (push) or
    "admin". timeout: of calls that name none, in seconds.
    """
    if right not in _RIGHTS:
        raise errors.UsageError(f"a right is one of {', '.join(_RIGHTS)}, not {right!r}")
    if cluster is None and endpoint is None:
        cluster = os.environ.get("TIDE_CLUSTER")
    if isinstance(cluster, str) and ":" in cluster and endpoint is None:
        cluster, endpoint = None, cluster
    options = lib.Options(size=ctypes.sizeof(lib.Options), cluster=_name(cluster, "a cluster's name") if cluster else None,
                          endpoints=_name(endpoint, "an endpoint") if endpoint else None,
                          keys=_name(os.fspath(keys), "a directory of keys") if keys else None, right=_RIGHTS[right],
                          outstanding=_whole(outstanding, "outstanding", 1024),
                          connect_timeout=_ns(connect_timeout), timeout=_ns(timeout),
                          memory=_whole(memory, "memory", 1 << 62))
    handle = ctypes.c_void_p()
    code = lib.open(ctypes.byref(options), ctypes.byref(handle))
    if code:
        raise errors.of_code(code)
    return Client(handle, timeout, {"cluster": cluster, "endpoint": endpoint, "keys": keys and os.fspath(keys)})
