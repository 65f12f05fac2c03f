"""Compares generators and the multiplexer with Flink's own: python -m tests.alignment.generators.flink --traces 2000.

``--record`` writes the first 300 of them with Flink's answers; CI compares those without Flink.
"""

import argparse
import gzip
import json
import random
import sys
from pathlib import Path

from tests.alignment.generators.traces import answer_of, random_trace
from tests.support.flink import flinks_answers

SOURCE = Path(__file__).parent / "java" / "Watermarks.java"
MAIN = "org.apache.flink.streaming.runtime.operators.Watermarks"
RECORDED = Path(__file__).parent / "recorded.jsonl.gz"
RECORDS = 300


def recorded():
    """Return the recorded traces with Flink's answers."""
    with gzip.open(RECORDED, "rt") as lines:
        return [json.loads(line) for line in lines]


def first_difference(trace, flinks):
    """Return the first step after which tidegate and Flink differ; None: there is none."""
    steps = enumerate(zip(answer_of(trace), flinks, strict=True))
    return next((step for step, (mine, theirs) in steps if mine != theirs), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    traces = [random_trace(chance) for _ in range(asked.traces)]
    answers = flinks_answers(SOURCE, MAIN, traces)
    pairs = list(zip(traces, answers, strict=True))
    different = [(trace, flinks) for trace, flinks in pairs if first_difference(trace, flinks) is not None]
    print(f"{len(pairs) - len(different)} of {len(pairs)} are equal")
    for trace, flinks in different[:3]:
        print(f"{json.dumps(trace)}\n  Flink    {flinks}\n  tidegate {answer_of(trace)}")
    if asked.record:
        with gzip.GzipFile(RECORDED, "wb", mtime=0) as out:
            for pair in pairs[:RECORDS]:
                out.write(json.dumps(pair, separators=(",", ":")).encode() + b"\n")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
