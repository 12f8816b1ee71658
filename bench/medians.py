#!/usr/bin/env python3
"""A table of the rows of several rounds: median, least and most of each figure.

medians.py FILE: the lines that the benchmarks print with --json; others are left out.
"""
import json
import statistics
import sys


def figures(line):
    """(row, unit, value) of each figure of a line."""
    try:
        row = json.loads(line)
    except ValueError:
        return
    if "row" in row:
        yield f"{row['bench']}: {row['row']}", row["unit"], row["value"]
    elif "name" in row:
        for key, value in row.items():
            if key != "name" and isinstance(value, (int, float)):
                yield f"{row['name']}: {key}", "", value


def main():
    rounds = {}
    with open(sys.argv[1], encoding="utf-8") as lines:
        for line in lines:
            for row, unit, value in figures(line):
                rounds.setdefault((row, unit), []).append(value)
    if not rounds:
        sys.exit(f"medians.py: {sys.argv[1]} has no line of figures; run the benchmarks with --json")
    print("| what | unit | median | least | most |\n|---|---|---|---|---|")
    for (row, unit), values in rounds.items():
        print(f"| {row} | {unit} | {statistics.median(values):.4g} | {min(values):.4g} | {max(values):.4g} |")


if __name__ == "__main__":
    main()
