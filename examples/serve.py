#!/usr/bin/python3
"""Asks the actors of examples/serve.lua while it trains: serve.py CLUSTER USER ITEM..."""
import sys

import tide

with tide.connect(sys.argv[1]) as c:
    items = [int(i) for i in sys.argv[3:]]
    scores = c.actor("predict").call("score", int(sys.argv[2]), items, timeout=5)
    for item, score in zip(items, scores):
        print(f"{item}: {score:.2f}")
