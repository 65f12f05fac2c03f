"""Compares the operator with Flink's own on random traces: python -m tests.windows.flink --traces 10000.

``--record`` writes the first 500 of them with Flink's answers; CI compares those without Flink.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from unittest import mock

from tests.support.flink import VERSION, flinks_answers
from tests.windows.traces import WAYS, answer_of, comparable, random_trace

SOURCE = Path(__file__).parent / "java" / "Traces.java"
MAIN = "org.apache.flink.streaming.runtime.operators.windowing.Traces"
RECORDED = Path(__file__).parent / "recorded.jsonl.gz"
SEED, RECORDS = 17, 500


def in_javas_order(parts):
    """Return windows in the order of Java's HashSet, in which Flink joins their rows."""
    return sorted(sorted(parts), key=lambda window: _bucket(window.start + window.end))


def _bucket(value):
    mask = 2**64 - 1
    value &= mask
    value = ((value ^ _shifted(value, 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ _shifted(value, 27)) * 0x94D049BB133111EB) & mask
    folded = (value ^ _shifted(value, 31)) & (2**32 - 1)
    return (folded ^ (folded >> 16)) & 15


def _shifted(value, bits):
    return value >> bits


def differences(trace, flinks):
    """Return the ways of running the operator that differ from Flink's answer."""
    differing = []
    with mock.patch("tidegate.windows.key_windows.in_order", in_javas_order):
        for ways in WAYS:
            answer = comparable(answer_of(trace, **ways))
            wanted = comparable(flinks)
            differing += [(ways, name, answer[name], wanted[name]) for name in wanted if answer[name] != wanted[name]]
    return differing


def recorded():
    """Return the recorded traces with Flink's answers."""
    with gzip.open(RECORDED, "rt") as lines:
        return [json.loads(line) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    traces = [random_trace(chance) for _ in range(asked.traces)]
    began = time.monotonic()
    answers = flinks_answers(SOURCE, MAIN, traces)
    print(f"Flink {VERSION} answered {len(answers)} traces in {time.monotonic() - began:.1f} s.")
    failed = [answer["error"] for answer in answers if "error" in answer]
    print(f"Flink raised in {len(failed)}: {Counter(failed).most_common(3)}")
    kept = [(trace, answer) for trace, answer in zip(traces, answers, strict=True) if "error" not in answer]
    wrong = 0
    for trace, answer in kept:
        differing = differences(trace, answer)
        wrong += bool(differing)
        if differing and wrong <= 3:
            ways, name, mine, flinks = differing[0]
            print(f"{json.dumps(trace)}\n  {ways} {name}\n  Flink    {flinks}\n  tidegate {mine}")
    fired, late = (sum(len(answer[name]) for _, answer in kept) for name in ("fired", "late"))
    timers = sum(len(answer["event"]) + len(answer["processing"]) for _, answer in kept)
    print(f"{len(kept) - wrong} of {len(kept)} are equal: {fired} firings, {late} late rows, {timers} timers left.")
    if asked.record:
        with gzip.GzipFile(RECORDED, "wb", mtime=0) as out:
            for trace, answer in kept[:RECORDS]:
                out.write(json.dumps({"trace": trace, "answer": answer}, separators=(",", ":")).encode() + b"\n")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
