"""Random traces of generators and of the multiplexer, and Flink's own answers to them beside tidegate's.

python -m tests.alignment.generators.flink --traces 2000

``--record`` writes the first 300 traces with Flink's answers; CI compares those without Flink.
"""

import argparse
import gzip
import json
import random
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from tests.support.flink import flinks_answers
from tidegate.alignment.generators import (
    BoundedOutOfOrdernessWatermarks,
    GeneratorRun,
    RowWatermarkGenerator,
    SplitWatermark,
)
from tidegate.alignment.outcome import multiplexed

NONE_YET = -(2**63)


def random_trace(chance):
    """Return a trace: of the multiplexer, of a bounded disorder, or of a generator that obeys its events.

    inputs: the number of splits; a step is a split, and a watermark, whether it is active, or None: it begins anew.
    disorder: the disorder in ms; a step is an event time, or None for a periodic emission.
    neither: a step is an event, see Obedient.
    """
    kind, steps = chance.randrange(3), chance.randrange(1, 40)
    if kind == 0:
        inputs = chance.randrange(1, 5)
        return {
            "inputs": inputs,
            "steps": [
                [chance.randrange(inputs), chance.choice([True, False, False, None, *[chance.randrange(-5, 25)] * 4])]
                for _ in range(steps)
            ],
        }
    if kind == 1:
        return {
            "disorder": chance.randrange(0, 10),
            "steps": [chance.choice([None, chance.randrange(-1000, 1000)]) for _ in range(steps)],
        }
    return {"steps": [chance.randrange(-300, 300) for _ in range(steps)]}


class Obedient(RowWatermarkGenerator):
    """By its last digit an event is a watermark (0), an idle mark (1), an active mark (2), or nothing."""

    def on_row(self, row, event_time_ms, output):
        match event_time_ms % 10:
            case 0:
                output.emit_watermark(event_time_ms)
            case 1:
                output.mark_idle()
            case 2:
                output.mark_active()


def answer_of(trace):
    """Return for each step the watermark and whether the output is active, as Flink's answers have them."""
    return _of_multiplexer(trace) if "inputs" in trace else _of_generator(trace)


def _of_multiplexer(trace):
    """Return the combined watermarks; as in Flink a watermark makes its split active."""
    splits, watermark_ms, answer = [(None, True)] * trace["inputs"], None, []
    for number, said in trace["steps"]:
        before_ms, _ = splits[number]
        if said is None:
            splits[number] = None, True
        elif isinstance(said, bool):
            splits[number] = before_ms, said
        else:
            splits[number] = said if before_ms is None else max(before_ms, said), True
        active = [at_ms for at_ms, is_active in splits if is_active]
        watermark_ms = multiplexed(watermark_ms, active, [at_ms for at_ms, is_active in splits if not is_active])
        answer.append([NONE_YET if watermark_ms is None else watermark_ms, True])
    return answer


def _of_generator(trace):
    """Show each event to another instance, which goes on from the last one."""

    def supplier():
        if "disorder" not in trace:
            return Obedient()
        return BoundedOutOfOrdernessWatermarks(timedelta(milliseconds=trace["disorder"]))

    split, answer = SplitWatermark(), []
    for step in trace["steps"]:
        run = GeneratorRun(supplier(), split)
        if step is not None:
            times = pa.array([step], pa.int64())
            run.add(pa.record_batch([times], ["event"]), times)
        split = SplitWatermark.from_json(run.end().to_json())
        if "disorder" in trace and step is not None:  # Flink emits only where the trace says so
            answer.append(answer[-1] if answer else [NONE_YET, True])
        else:
            answer.append([NONE_YET if split.watermark_ms is None else split.watermark_ms, not split.is_idle])
    return answer


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
