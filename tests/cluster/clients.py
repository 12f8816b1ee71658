"""The Python client against a cluster: clients.py CLUSTER. Prints what failed, and ends with 1 then."""
import asyncio
import ctypes
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback

import numpy as np

import tide
import tide.aio

cluster = sys.argv[1]
tests = []


def test(function):
    tests.append(function)
    return function


def raises(kind, call, text=""):
    try:
        call()
    except kind as error:
        assert text in str(error), f"{text!r} is not in {error}"
        return error
    raise AssertionError(f"no {kind.__name__}")


@test
def rows_go_both_ways(c):
    sums = c.table("sums")
    assert (sums.width, sums.count, sums.update) == (4, 1000, "add")
    row = sums.pull([7])[0]  # each worker of the run has pushed it
    assert row[0] >= 1 and (row == row[0] * np.array([1, 2, 3, 4])).all()
    keys = np.arange(1000, dtype=np.uint64)[::-1].copy()
    before = sums.pull(keys)
    sums.push(keys, np.ones((1000, 4), np.float32))
    assert (sums.pull(keys) == before + 1).all()
    assert sums.pull(np.array([[1, 2], [3, 4]])).shape == (2, 2, 4)
    assert sums.pull([]).shape == (0, 4)
    sums.push([], np.empty((0, 4), np.float32))
    words = c.table("fill-1.words")
    words.push([2**62, 5], [[1, 2], [3, 4]])
    assert words.pull([5, 2**62]).tolist() == [[3, 4], [1, 2]]
    moving = c.table("moving")
    moving.push([1, 2, 3], np.ones((3, 4), np.float32))
    moving.localize([1, 2, 3])
    assert moving.pull([1, 2, 3]).sum() == 12


@test
def arrays_are_used_in_place(c):
    factors = c.table("factors")
    keys = np.array([3, 7, 9], np.int64)
    out = np.full((3, 64), 9, np.float32)
    assert factors.pull(keys, out=out) is out and out.sum() == 0
    raises(ValueError, lambda: factors.pull(keys, out=np.empty((3, 63), np.float32)), "shape")
    raises(ValueError, lambda: factors.pull(keys, out=np.empty((3, 64))), "float64")
    raises(ValueError, lambda: factors.pull(keys, out=np.empty((3, 128), np.float32)[:, ::2]), "contiguous")
    out.flags.writeable = False
    raises(ValueError, lambda: factors.pull(keys, out=out), "writable")
    strided = np.arange(20, dtype=np.uint64)[::2]
    assert factors.pull(strided).shape == (10, 64)
    raises(TypeError, lambda: factors.pull(np.array([1.0])), "integers")
    raises(TypeError, lambda: factors.pull([True, False]), "integers")
    raises(TypeError, lambda: factors.push([1], np.ones((1, 64))), "cast=True")
    factors.push([1], np.ones((1, 64)), cast=True)
    raises(ValueError, lambda: factors.push([1], np.ones((2, 64), np.float32)), "shape")
    raises(ValueError, lambda: factors.push([1, 2], np.ones((2, 128), np.float32)[:, ::2]), "contiguous")
    assert factors.pull([1])[0, 5] == 1


@test
def bad_arguments_are_errors_at_the_call(c):
    sums, words = c.table("sums"), c.table("words")
    memory = np.zeros(100, np.float32)
    cases = [
        (ValueError, "overlap", lambda: sums.pull(memory[:8].view(np.uint64)[:2], out=memory[:8].reshape(2, 4))),
        (ValueError, "aligned", lambda: sums.pull([1], out=np.frombuffer(bytearray(17), np.uint8)[1:].view(np.float32).reshape(1, 4))),
        (ValueError, "no array", lambda: sums.pull([1], out=[0, 0, 0, 0])),
        (ValueError, ">f4", lambda: sums.pull([1], out=np.empty((1, 4), ">f4"))),
        (TypeError, "integers", lambda: sums.pull(None)),
        (TypeError, "integers", lambda: sums.pull("abc")),
        (IndexError, "beyond 2^64 - 1", lambda: sums.pull([2**64])),
        (IndexError, "outside", lambda: sums.pull([2**63])),
        (ValueError, "memory", lambda: sums.pull(np.zeros(10**8, np.uint64))),
        (ValueError, "shape", lambda: sums.push([1], None)),
        (ValueError, "", lambda: sums.push([1, 2], [[1, 2, 3, 4], [1]])),
        (ValueError, "infinity", lambda: words.push([1], [[np.inf, 1]])),
        (TypeError, "timeout", lambda: sums.pull([1], timeout="5")),
        (ValueError, "timeout", lambda: sums.pull([1], timeout=float("nan"))),
        (ValueError, "timeout", lambda: sums.pull([1], timeout=0)),
        (TypeError, "a table's name is a text", lambda: c.table(5)),
        (ValueError, "zero character", lambda: c.table("sums\0")),
        (ValueError, "at most 63", lambda: c.table("x" * 1000)),
        (TypeError, "an actor's name", lambda: c.actor(5).call("x")),
        (ValueError, "no name of an actor", lambda: c.actor("no such!").call("x")),
        (TypeError, "cannot be sent", lambda: c.actor("runs").send(object())),
        (OverflowError, "64 bits", lambda: c.actor("runs").send(2**64)),
        (TypeError, "a cluster's name", lambda: tide.connect(5)),
        (ValueError, "zero character", lambda: tide.connect(cluster + "\0")),
        (ValueError, "no name of a cluster", lambda: tide.connect("LAB")),
        (ValueError, "too long", lambda: tide.connect(endpoint="unix:/" + "x" * 5000)),
        (ValueError, "tide keys init", lambda: tide.connect(endpoint="tcp:10.0.0.1:1", keys="/nonexistent")),
        (ValueError, "outstanding is 1 to 1024", lambda: tide.connect(cluster, outstanding=10**6)),
        (ValueError, "memory is 1 to", lambda: tide.connect(cluster, memory=-1)),
        (TypeError, "a whole number", lambda: tide.connect(cluster, memory=1.5)),
    ]
    for kind, text, call in cases:
        raises(kind, call, text)
    assert sums.pull(np.uint64(3)).shape == (4,) and sums.pull(np.array([1, 2], ">u8")).shape == (2, 4)


@test
def errors_have_codes(c):
    sums = c.table("sums")
    error = raises(tide.KeyRangeError, lambda: sums.pull([1000]), "key 1000 is outside table")
    assert isinstance(error, IndexError) and error.name == "ERANGE"
    raises(tide.KeyRangeError, lambda: sums.pull([-1]))
    words = c.table("words")
    raises(tide.KeyRangeError, lambda: words.pull([-1]), "negative")
    raises(tide.KeyRangeError, lambda: words.pull([1, 1 << 64]), "key 18446744073709551616 is beyond 2^64 - 1")
    raises(tide.KeyRangeError, lambda: words.pull([1 << 63, -1]), "key -1 is negative")
    raises(TypeError, lambda: words.pull([1 << 64, 1.5]), "keys are integers")
    assert words.pull([1, (1 << 63) + 1]).shape == (2, 2)  # of which numpy alone makes floats
    for call in (lambda: words.push([1], [[1e39, 0]]), lambda: words.push([1], np.full((1, 2), -1e39), cast=True)):
        raises(tide.UsageError, call, "beyond what a float32 holds")
    raises(tide.UsageError, lambda: c.table("absent"), "tide tables")
    error = raises(tide.UsageError, lambda: c.table("words").push([1], [[np.nan, 0]]))
    assert error.name == "ENAN" and error.outcome == "none"
    raises(tide.UsageError, lambda: sums.pull([1], timeout=-1))
    raises(tide.UsageError, lambda: tide.connect(cluster, right="god"))
    raises(tide.UsageError, lambda: tide.connect("no-such-cluster"), "tide up")
    raises(tide.ConnectionError, lambda: tide.connect(endpoint="unix:/nonexistent/x"))
    raises(tide.UsageError, lambda: tide.connect(endpoint="nonsense"))
    with tide.connect(cluster) as reader:
        error = raises(tide.PermissionError, lambda: reader.table("sums").push([1], np.ones((1, 4), np.float32)))
        assert isinstance(error, PermissionError)
    assert c.table("shown").pull([1]).shape == (1, 1)
    raises(tide.PermissionError, lambda: c.table("shown").push([1], [[1]]), "lets clients read alone")
    raises(tide.PermissionError, lambda: c.table("closed"), "closed to clients")
    raises(TypeError, lambda: pickle.dumps(c))
    raises(TypeError, lambda: pickle.dumps(sums))


def frame_of(connection):
    size = connection.recv(4, socket.MSG_WAITALL)
    return size + connection.recv(int.from_bytes(size, "little"), socket.MSG_WAITALL)


@test
def another_version_gets_a_clear_answer(c):
    with open(os.path.join(os.environ["XDG_RUNTIME_DIR"], "tide", cluster, "endpoint"), encoding="utf-8") as file:
        node = file.readline().strip().partition(":")[2]
    ours = int(os.environ["TIDE_PROTOCOL"])
    for theirs in (ours - 1, ours + 1):  # a client of the version before, and of the next one
        hello = bytes.fromhex(f"210000009506000000dc0011{theirs:02x}a0a0cf112233445566778800a000a0c2c300000000000001")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(node)
            client.sendall(hello)
            refusal = frame_of(client)
        assert f"peer speaks protocol {ours}, this node speaks {theirs}".encode() in refusal, refusal
        # the same refusal as a client of this version gets it, of a node of another one
        path = f"stranger-{theirs}"
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.bind(path)
            stranger.listen(8)

            def refuse():
                connection, _ = stranger.accept()
                with connection:
                    frame_of(connection)
                    connection.sendall(refusal)

            threading.Thread(target=refuse, daemon=True).start()
            raises(tide.VersionError, lambda: tide.connect(endpoint="unix:" + os.path.abspath(path)), "install")


@test
def places_are_bounded(c):
    factors = c.table("factors")
    started = []
    error = raises(tide.BusyError, lambda: [started.append(factors.pull_async([1])) for _ in range(10**6)])
    assert error.retry_after > 0 and len(started) >= 64  # fewer wait: some are answered meanwhile
    assert all(r.shape == (1, 64) for r in tide.wait(started))
    raises(tide.ClosedError, started[0].result)
    assert c.info["outstanding"] == 0


@test
def an_operation_that_ends_behind_a_wait_has_its_own_code(c):
    from tide import _library as lib
    operation, real, waits = c.table("sums").pull_async([1]), lib.wait, []
    while not operation.done():
        time.sleep(0.001)

    def late(handle, timeout):
        waits.append(timeout)
        return -10004 if len(waits) == 1 else real(handle, timeout)

    lib.wait = late
    try:
        assert operation.result().shape == (1, 4)
    finally:
        lib.wait = real


@test
def threads_share_a_client(c):
    moving, failures = c.table("moving"), []

    def work(first):
        try:
            keys = np.arange(first, first + 10)
            before = moving.pull(keys)
            for _ in range(100):
                moving.push(keys, np.ones((10, 4), np.float32))
            assert (moving.pull(keys) == before + 100).all()
        except BaseException as error:  # noqa: B902
            failures.append(error)

    threads = [threading.Thread(target=work, args=(100 + 10 * i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures


@test
def a_closed_client_is_an_error(c):
    other = tide.connect(cluster)
    table, stream, operation = other.table("sums"), other.events(), other.table("sums").pull_async([1])
    other.close()
    other.close()
    for call in calls_of(other, table, stream):
        raises(tide.ClosedError, call, "closed")
    try:
        operation.result()  # it may have ended before
    except tide.ClosedError:
        pass
    assert "closed" in repr(other) and "sums" in repr(table)

    async def main():
        client = await tide.aio.connect(cluster)
        sums = await client.table("sums")
        await client.close()
        await client.close()
        try:
            await sums.pull([1])
        except tide.ClosedError:
            return True

    assert asyncio.run(main())


def calls_of(client, table, stream):
    return [lambda: table.pull([1]), lambda: table.push([1], [[1, 1, 1, 1]]), lambda: table.localize([1]),
            lambda: client.table("sums"), lambda: client.info, lambda: client.actor("runs").send({"op": "list"}),
            lambda: client.actor("runs").cast(1), client.runs.list, lambda: client.runs.get("fill-1").wait(1),
            lambda: client.runs.get("fill-1").stop(), client.events, lambda: stream.next(1)]


def in_child(client, answer):
    try:
        operation = client.inherited[2]
        for call in calls_of(client, *client.inherited[:2]):
            raises(tide.ClosedError, call, "was opened by process")
        raises(tide.ClosedError, operation.result, "was opened by process")
        assert "was opened by process" in repr(client)
        client.close()
        with tide.connect(cluster) as own:
            assert own.table("sums").pull([1]).shape == (1, 4)
        answer.put("")
    except BaseException:  # noqa: B902
        answer.put(traceback.format_exc())


@test
def a_forked_child_opens_its_own(c):
    c.inherited = c.table("sums"), c.events(), c.table("sums").pull_async([1])
    context = multiprocessing.get_context("fork")
    answer = context.Queue()
    child = context.Process(target=in_child, args=(c, answer))
    child.start()
    found = answer.get(timeout=20)
    assert found == "", found
    child.join(20)
    assert child.exitcode == 0
    assert c.inherited[2].result().shape == (1, 4)
    del c.inherited
    assert c.table("sums").pull([1]).shape == (1, 4)


@test
def keyboard_interrupt_leaves_the_client_usable(c):
    for i in range(30):  # at another place of the way each time
        timer = threading.Timer(0.01 + 0.0007 * i, lambda: os.kill(os.getpid(), signal.SIGINT))
        began = time.monotonic()
        try:
            timer.start()
            while time.monotonic() < began + 20:
                c.table("factors").pull(np.arange(1000 if i < 10 else 1))
            raise AssertionError("no KeyboardInterrupt")
        except KeyboardInterrupt:
            pass
        timer.join()
    assert c.table("sums").pull([1]).shape == (1, 4)


@test
def coroutines(c):
    async def main():
        async with tide.aio.connect(cluster, right="operate", outstanding=16) as a:
            factors = await a.table("factors")
            rows = await asyncio.gather(*(factors.pull([i, i + 1]) for i in range(200)))
            assert len(rows) == 200 and rows[0].shape == (2, 64)
            await factors.push([50], np.ones((1, 64), np.float32))
            assert (await factors.pull([50]))[0, 0] == 1
            task = asyncio.ensure_future(factors.pull([1]))
            await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            try:
                await factors.pull([10**7])
                raise AssertionError("no error")
            except tide.KeyRangeError:
                pass

    asyncio.run(main())


@test
def runs_are_submitted_and_listed(c):
    run = c.runs.submit(os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients.lua"))
    assert run.name.startswith("fill-")
    run.wait(60)
    assert any(r["name"] == run.name for r in c.runs.list(all=True))
    raises(tide.Error, lambda: c.runs.get("absent-1").show())
    reports = list(run)
    assert reports and reports[-1].loss > 0, reports
    assert run.history()["loss"] == [r.loss for r in reports]


@test
def runs_are_steered_in_c(c):
    from tide import _library as lib
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients.lua").encode()
    row, rows, count = lib.Run(size=ctypes.sizeof(lib.Run)), (lib.Run * 2)(), ctypes.c_size_t()
    words = (ctypes.c_char_p * 2)(b"--keep", script)
    assert lib.submit(c._handle, words, 2, 0, ctypes.byref(row)) == 0, lib.error()
    name = row.name
    assert name.startswith(b"fill-") and row.job == b"fill" and row.user and row.submitted_at > 1e9
    assert lib.run_wait(c._handle, name, 0, ctypes.byref(row)) == 0, lib.error()
    assert row.state == b"done" and row.ended and row.closed and row.exit == 0 and row.ended_at >= row.started_at
    assert row.reports == 1 and row.loss == 0.5 and row.examples > 0
    rows[0].size = ctypes.sizeof(lib.Run)
    assert lib.runs(c._handle, True, 0, rows, 2, ctypes.byref(count)) == 0, lib.error()
    assert count.value >= 3 and rows[0].name == b"fill-1" and rows[1].name == b"fill-2", [r.name for r in rows]
    assert lib.run_do(c._handle, name, b"set", (ctypes.c_char_p * 1)(b"lr=0.5"), 1, 0) < 0
    assert b"has ended" in lib.error(), lib.error()
    assert lib.run_do(c._handle, name, b"set", (ctypes.c_char_p * 1)(b"lr"), 1, 0) < 0
    assert lib.error() == b"'lr' is no NAME=VALUE"
    assert lib.run_do(c._handle, name, b"dance", None, 0, 0) < 0 and b"no verb" in lib.error(), lib.error()
    assert lib.run(c._handle, b"absent-1", 0, ctypes.byref(row)) < 0 and b"no run" in lib.error(), lib.error()
    words[1] = b"absent.lua"
    assert lib.submit(c._handle, words, 2, 0, ctypes.byref(row)) < 0 and b"cannot read" in lib.error(), lib.error()
    row.size = 8
    assert lib.run(c._handle, name, 0, ctypes.byref(row)) < 0 and b"size" in lib.error(), lib.error()


@test
def what_happens_is_told_once_and_in_order(c):
    with c.events() as seen, c.log() as logged:
        raises(tide.TimeoutError, lambda: seen.next(0.3), "nothing happened")
        raises(tide.TimeoutError, lambda: logged.next(0.3))
        run = c.runs.submit(os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients.lua"))
        texts = []
        for event in iter(lambda: seen.next(30), None):
            assert event.node and event.kind and event.time > 1e9
            texts.append(event.text)
            if "finished" in event.text:
                break
        run.wait(60)
        assert [t for t in texts if "job fill" in t] == ["job fill started: 3 workers on 3 nodes", "job fill finished"]
        line = logged.next(20)
        assert line.kind in ("debug", "info", "warn", "error") and line.text
    whole = [e for e in c.events(whole=True, timeout=0.5)]
    assert [e.time for e in whole] == sorted(e.time for e in whole) and "joined" in whole[0].text, whole
    assert len({e.text for e in whole if e.text.startswith("node n")}) >= 2, whole
    raises(tide.UsageError, lambda: tide.Stream(c, "nonsense", False, None))
    assert all(isinstance(line, str) for line in run.log(follow=True))
    raises(tide.ActorError, lambda: list(c.runs.get("absent-1").log()), "no run")

    async def first():
        async with tide.aio.connect(cluster) as a:
            async for event in a.events(whole=True):
                return event
    assert asyncio.run(first()) == whole[0]


@test
def a_stream_is_not_closed_while_a_thread_reads_it(c):
    with c.events() as seen:
        pass
    raises(tide.ClosedError, lambda: seen.next(1), "the stream is closed")
    library, reading, begun, closed = tide.client.lib, [0], threading.Event(), []
    stream_next, stream_close = library.stream_next, library.stream_close

    def slow_next(*arguments):
        reading[0] += 1
        begun.set()
        code = stream_next(*arguments)
        time.sleep(0.1)
        reading[0] -= 1
        return code

    def watched_close(handle):
        closed.append(reading[0])
        stream_close(handle)

    async def cancelled():
        async with tide.aio.connect(cluster) as a:
            async def read():
                async for _ in a.events():
                    pass
            task = asyncio.ensure_future(read())
            await asyncio.get_running_loop().run_in_executor(None, begun.wait)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled(), task

    library.stream_next, library.stream_close = slow_next, watched_close
    try:
        asyncio.run(cancelled())
    finally:
        library.stream_next, library.stream_close = stream_next, stream_close
    assert closed == [0], closed


@test
def an_embedding_learns_as_that_of_torch(c):
    try:
        import torch
    except ImportError:
        return
    import tide.torch
    table = c.table("fill-1.embedded")
    theirs = torch.nn.Embedding.from_pretrained(torch.from_numpy(table.pull(np.arange(50))), freeze=False, sparse=True)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    ours = tide.torch.Embedding(table)
    ids = torch.tensor([[1, 7, 7], [3, 1, 49]])
    weights = torch.arange(4.0)
    for emb in (ours, theirs, ours, theirs):
        optimizer.zero_grad()
        (emb(ids) ** 2 * weights).sum().backward()
        if emb is theirs:
            optimizer.step()
    assert np.abs(table.pull(np.arange(50)) - theirs.weight.detach().numpy()).max() < 1e-6
    before = table.pull(np.arange(50))
    with torch.no_grad():
        ours(ids)
    ours.eval()(ids)
    late = tide.torch.Embedding(table, push="step", padding_idx=7)
    assert not late(ids)[0, 1].any()
    late(ids).sum().backward()
    late(ids).sum().backward()
    assert (table.pull(np.arange(50)) == before).all()
    late.step()
    change = before - table.pull(np.arange(50))
    assert np.allclose(change[[1, 3, 49, 7, 0], 0], [0.4, 0.2, 0.2, 0, 0], atol=1e-6), change[:, 0]
    x = torch.ones(3, requires_grad=True)
    raises(TypeError, lambda: table.push([1, 2, 3], x), "requires a gradient")
    raises(tide.UsageError, lambda: tide.torch.Embedding(c.table("fill-1.factors")), "lr")
    rows = torch.empty(2, 4)
    assert table.pull(torch.tensor([1, 2]), out=rows) is rows and rows[0, 0] == table.pull([1])[0, 0]


def main():
    failed = 0
    wanted = sys.argv[2:]
    with tide.connect(cluster, right="operate") as c:
        for function in tests:
            if wanted and function.__name__ not in wanted:
                continue
            try:
                function(c)
            except BaseException:  # noqa: B902
                failed += 1
                print(f"{function.__name__}:\n{traceback.format_exc()}")
    sys.exit(1 if failed else 0)


main()
