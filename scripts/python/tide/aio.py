"""The client for asyncio: tables (pull, push) and actors (send, call) by the same names, as coroutines.

>>> async with tide.aio.connect("lab") as c:
...     rows = await c.table("factors").pull(keys)

More operations than the client has places wait for one. A cancelled task cancels its operation.
"""
from __future__ import annotations

import asyncio
import ctypes
from typing import Any, AsyncIterator, Optional

from . import _library as lib, client as blocking, errors

_BATCH = 256
_EVENTS_S = 0.25  # a cancelled task ends its wait for events within so long
_EXPIRY_S = 0.1  # deadlines of operations that no answer ends are looked at so often


class Table:
    def __init__(self, owner: "Client", table: blocking.Table):
        self._owner, self._table = owner, table
        self.name, self.width, self.count, self.update = table.name, table.width, table.count, table.update

    async def pull(self, keys, out=None, timeout: Optional[float] = None):
        """As tide.Table.pull."""
        return await self._owner._run(lambda: self._table.pull_async(keys, out, timeout))

    async def push(self, keys, rows, timeout: Optional[float] = None, cast: bool = False) -> None:
        """As tide.Table.push."""
        await self._owner._run(lambda: self._table.push_async(keys, rows, timeout, cast))


class Actor:
    def __init__(self, owner: "Client", actor: blocking.Actor):
        self._owner, self._actor = owner, actor

    async def send(self, body: Any, timeout: Optional[float] = None) -> Any:
        """As tide.Actor.send."""
        if self._actor._address is None:
            await asyncio.get_running_loop().run_in_executor(None, self._actor._find, timeout)
        try:
            return await self._owner._run(lambda: self._actor.send_async(body, timeout))
        except errors.DiedError:
            self._actor._address = None
            raise

    async def call(self, method: str, *arguments: Any, timeout: Optional[float] = None) -> Any:
        """As tide.Actor.call."""
        return blocking.value_of(await self.send(blocking.ask_of(method, arguments, timeout), timeout))


class Client:
    def __init__(self, client: blocking.Client):
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._waiting: dict = {}
        self._fd = lib.fd(client._open())
        client._check(min(self._fd, 0))
        self._loop.add_reader(self._fd, self._ready)
        self._timer = self._loop.call_later(_EXPIRY_S, self._expire)

    async def table(self, name: str) -> Table:
        """A table by its name."""
        return Table(self, await self._loop.run_in_executor(None, self._client.table, name))

    def actor(self, name: str) -> Actor:
        """An actor by its name."""
        return Actor(self, self._client.actor(name))

    async def events(self, whole: bool = False) -> AsyncIterator[blocking.Line]:
        """As tide.Client.events: `async for event in c.events()`."""
        stream = self._client.events(whole)
        try:
            while True:
                try:
                    yield await self._loop.run_in_executor(None, stream.next, _EVENTS_S)
                except errors.TimeoutError:
                    pass
        finally:  # a cancelled wait continues in its thread for a moment
            await self._loop.run_in_executor(None, stream.close)

    async def close(self) -> None:
        self._loop.remove_reader(self._fd)
        self._timer.cancel()
        for _, future in self._waiting.values():
            future.cancel()
        await self._loop.run_in_executor(None, self._client.close)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    def _expire(self):
        self._timer = self._loop.call_later(_EXPIRY_S, self._expire)
        if self._waiting:
            self._ready()

    def _ready(self):
        handles = (ctypes.c_void_p * _BATCH)()
        count = lib.done(self._client._open(), handles, _BATCH)
        for handle in handles[:count]:
            operation, future = self._waiting.pop(handle, (None, None))
            if future is not None and not future.done():
                future.set_result(None)

    async def _run(self, start):
        while True:
            try:
                operation = start()
                break
            except errors.BusyError:
                if not self._waiting:
                    raise
                await asyncio.wait([future for _, future in self._waiting.values()],
                                   return_when=asyncio.FIRST_COMPLETED)
        future = self._loop.create_future()
        self._waiting[operation._handle.value] = (operation, future)
        try:
            await future
        except asyncio.CancelledError:
            self._waiting.pop(operation._handle.value, None)
            operation.cancel()
            raise
        return operation.result()


class _Connecting:
    def __init__(self, arguments, named):
        self._arguments, self._named, self._client = arguments, named, None

    def __await__(self):
        return self._open().__await__()

    async def _open(self):
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(None, lambda: blocking.connect(*self._arguments, **self._named))
        return Client(made)

    async def __aenter__(self):
        self._client = await self._open()
        return self._client

    async def __aexit__(self, *_):
        await self._client.close()


def connect(*arguments, **named) -> _Connecting:
    """As tide.connect: `async with tide.aio.connect("lab") as c`, or `c = await tide.aio.connect("lab")`."""
    return _Connecting(arguments, named)
