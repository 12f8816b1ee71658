"""What clients see when the node that serves them stalls and dies: clients_faults.py CLUSTER. Each push adds 1 to a row
that has a copy on another node; the row tells in the end how many were applied."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np

import tide

cluster = sys.argv[1]
DEADLINE, SLACK = 10.0, 5.0  # of a call; a busy machine is late
KEYS, FAR = np.arange(100), np.arange(0, 100000, 11)  # of all homes, in tables of 100 and of 100000 keys


def member(name):
    out = subprocess.run([os.environ["TIDE_PROGRAM"], "nodes", "--cluster", cluster, "--json"], capture_output=True,
                         text=True, check=True).stdout
    return next(node for node in map(json.loads, out.splitlines()) if node.get("name") == name)


def stalls(c, kept, factors):
    node = member(c.info["node"])
    pid = node["pid"]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.05)  # until it has stopped
    try:
        began = time.monotonic()
        try:
            kept.pull(KEYS, timeout=0.3)
            # Where the load is high, the others may have declared it dead: then its copies answer.
            assert member(node["name"])["state"] != "up", "a stalled node answered"
        except tide.TimeoutError:
            assert time.monotonic() - began < 0.3 + SLACK
        try:
            factors.push(FAR, np.zeros((len(FAR), 64), np.float32), timeout=0.3)
            raise AssertionError("a stalled node answered")
        except tide.TimeoutError as error:
            assert error.outcome == "unknown", error.outcome
        began = time.monotonic()
        try:
            tide.connect(endpoint=node["endpoint"], connect_timeout=0.3)
            raise AssertionError("a stalled node took a client")
        except tide.TimeoutError:
            assert time.monotonic() - began < 0.3 + SLACK
        assert any(is_served(factors, int(key)) for key in FAR[::999]), "the homes that live answered nothing"
    finally:
        os.kill(pid, signal.SIGCONT)
    assert kept.pull(KEYS).shape == (100, 1)


def is_served(table, key):
    try:
        return table.pull([key], timeout=0.2).shape == (1, table.width)
    except tide.TimeoutError:
        return False


class Pusher(threading.Thread):
    def __init__(self, table, key):
        super().__init__()
        self.table, self.key, self.applied, self.unknown, self.problem, self.over = table, key, 0, 0, None, False

    def run(self):
        one = np.ones((1, 1), np.float32)
        try:
            while not self.over:
                began = time.monotonic()
                try:
                    self.table.push([self.key], one, timeout=DEADLINE)
                    self.applied += 1
                except tide.Error as error:
                    self.unknown += error.outcome == "unknown"
                    assert error.outcome in ("none", "unknown"), error
                assert time.monotonic() - began < DEADLINE + SLACK, "a push came back late"
                self.table.pull([self.key], timeout=DEADLINE)
        except Exception as problem:  # of the thread: told at its end
            self.problem = problem


def dies(c, kept):
    pushers = [Pusher(kept, 10 + i) for i in range(4)]
    for p in pushers:
        p.start()
    time.sleep(0.3)
    victim = c.info["node"]
    os.kill(member(victim)["pid"], signal.SIGKILL)
    while c.info["node"] in ("", victim):
        time.sleep(0.02)
    time.sleep(1)
    for p in pushers:
        p.over = True
    for p in pushers:
        p.join()
        assert p.problem is None, repr(p.problem)
        assert p.applied > 0
    rows = kept.pull([p.key for p in pushers])[:, 0]
    for p, row in zip(pushers, rows):
        assert p.applied <= row <= p.applied + p.unknown, (p.applied, p.unknown, row)
    print(f"{sum(p.applied for p in pushers)} applied, {sum(p.unknown for p in pushers)} unknown, {rows.sum():.0f} in the rows")


with tide.connect(cluster, right="operate") as client:
    table, plain = client.table("kept"), client.table("factors")
    while client.info["connects"] < 3 or client.info["direct"] < 6:  # links to the homes are being made
        table.pull(KEYS)
        plain.pull(FAR)
    stalls(client, table, plain)
    dies(client, table)
