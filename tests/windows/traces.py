"""Traces: random parts of a window operator, with rows and times that go through it.

A trace is JSON: ``assigner``, ``trigger`` and ``evictor`` as lists of a name and its parameters (times in ms),
``lateness``, ``function``, and ``steps``:

    ["e", key, number, value, gap, timestamp]    a row
    ["w", time]                                  a watermark, greater than the one before
    ["p", time]                                  a processing time

An answer is JSON, too.  An epoch is the number of times that were advanced before.

    fired       [epoch, key, start, end, timer or null, watermark, numbers of rows, or their count and sum]
    late        [epoch, key, number]
    event       [key, time, start, end] of timers that are left;  processing: the same
"""

from __future__ import annotations

import random
from datetime import timedelta

import pyarrow as pa

from tidegate.windows import (
    Aggregate,
    AggregateFunction,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    Process,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowOperator,
    WindowStagger,
)
from tidegate.windows.state.store import MemoryKeyStore
from tidegate.windows.window import MAX_TIME, MIN_TIME

BASES = (0, -1000, 1461756862000)  # windows around 1970 cross from negative to positive times
TIMED = ("tumbling", "sliding", "session", "dynamic")


class Rows(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [(context.current_watermark(), [row["n"] for row in elements])]


class Aggregated(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [(context.current_watermark(), list(elements[0]))]


class CountAndSum(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value["n"]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def ms(time):
    return timedelta(milliseconds=time)


def gap_of(row):
    return ms(row["gap"])


def distance(last, row):
    return abs(row["value"] - last["value"])


def assigner_of(parts):
    name, *numbers = parts
    match name:
        case "tumbling-event" | "tumbling-processing":
            kind = TumblingEventTimeWindows if name == "tumbling-event" else TumblingProcessingTimeWindows
            return kind.of(ms(numbers[0]), ms(numbers[1]), WindowStagger[numbers[2]])
        case "sliding-event":
            return SlidingEventTimeWindows.of(*map(ms, numbers))
        case "sliding-processing":
            return SlidingProcessingTimeWindows.of(*map(ms, numbers))
        case "session-event":
            return EventTimeSessionWindows.with_gap(ms(numbers[0]))
        case "session-processing":
            return ProcessingTimeSessionWindows.with_gap(ms(numbers[0]))
        case "dynamic-event":
            return DynamicEventTimeSessionWindows.with_dynamic_gap(gap_of)
        case "dynamic-processing":
            return DynamicProcessingTimeSessionWindows.with_dynamic_gap(gap_of)
    return GlobalWindows.create()


def trigger_of(parts):
    if parts is None:
        return None
    name, *rest = parts
    match name:
        case "event":
            return EventTimeTrigger.create()
        case "processing":
            return ProcessingTimeTrigger.create()
        case "count":
            return CountTrigger.of(rest[0])
        case "delta":
            return DeltaTrigger.of(rest[0], distance)
        case "continuous-event":
            return ContinuousEventTimeTrigger.of(ms(rest[0]))
        case "continuous-processing":
            return ContinuousProcessingTimeTrigger.of(ms(rest[0]))
        case "purging":
            return PurgingTrigger.of(trigger_of(rest[0]))
        case "timeout":
            return ProcessingTimeoutTrigger.of(trigger_of(rest[0]), ms(rest[1]), rest[2], rest[3])
        case "end-of-stream":
            return EndOfStreamTrigger.create()
    return NeverTrigger.create()


def evictor_of(parts):
    if parts is None:
        return None
    name, number, after = parts
    if name == "count":
        return CountEvictor.of(number, after)
    return DeltaEvictor.of(number, distance, after) if name == "delta" else TimeEvictor.of(ms(number), after)


def operator_of(trace):
    folds = trace["function"] == "aggregate" and trace["evictor"] is None
    function = Aggregate(CountAndSum(), Aggregated()) if folds else Process(Rows())
    parts = (trigger_of(trace["trigger"]), evictor_of(trace["evictor"]), ms(trace["lateness"]))
    return WindowOperator(assigner_of(trace["assigner"]), function, *parts)


def answer_of(trace, *, at_once=False, reopened=False):
    """Return what the operator makes of a trace.

    at_once: each key's rows of an epoch are handed over together.  reopened: keys are closed after each epoch.
    """
    operator = operator_of(trace)
    answer = {"fired": [], "late": [], "event": [], "processing": []}
    stores, runs, waiting = {}, {}, {}
    epoch, watermark, now = 0, MIN_TIME, 0

    def run_of(key):
        if key not in runs:
            runs[key] = operator.open(key, stores.setdefault(key, MemoryKeyStore()), now)
            runs[key].advance_watermark(watermark)
        return runs[key]

    def collect():
        for key, run in runs.items():
            for window, (seen, payload), timer in run.results:
                answer["fired"].append([epoch, key, window.start, window.end, timer, seen, payload])
            answer["late"] += [[epoch, key, row["n"]] for row in run.late]
            run.results.clear()
            run.late.clear()

    def hand_over():
        for number, (key, rows) in enumerate(waiting.items()):
            held = [row for row, _ in rows]
            run_of(key).process_elements(
                held if number % 2 else pa.RecordBatch.from_pylist(held), [at for _, at in rows]
            )
        waiting.clear()
        collect()

    for step in trace["steps"]:
        if step[0] == "e":
            _, key, n, value, gap, timestamp = step
            row = {"n": n, "value": value, "gap": gap}
            waiting.setdefault(key, []).append((row, timestamp))
            if not at_once:
                run_of(key).process_element(*waiting.pop(key)[0])
                collect()
            continue
        hand_over()
        if reopened:
            for run in runs.values():
                run.close()
            runs.clear()
        epoch += 1
        for key in stores:
            run = run_of(key)
            run.advance_watermark(step[1]) if step[0] == "w" else run.advance_processing_time(step[1])
        watermark, now = (step[1], now) if step[0] == "w" else (watermark, step[1])
        collect()
    hand_over()
    for key, run in runs.items():
        answer["event"] += [[key, *timer] for timer in run.event_timers()]
        answer["processing"] += [[key, *timer] for timer in run.processing_timers()]
    for run in runs.values():
        run.close()
    answer["kept"] = sorted(key for key, store in stores.items() if store.values)
    return answer


WAYS = ({}, {"reopened": True}, {"at_once": True}, {"at_once": True, "reopened": True})


def ways_of(trace):
    """Return the ways in which a trace can be run: a key that was closed without windows draws its offset anew."""
    return [ways for ways in WAYS if "NATURAL" not in trace["assigner"] or "reopened" not in ways]


def comparable(answer):
    """Return an answer in an order that leaves open what Flink leaves open: that of keys, and of timers at one time."""

    def place(fired):
        epoch, key, start, _, timer, *_ = fired
        return epoch, key, timer is None, 0 if timer is None else timer, 0 if timer is None or start is None else start

    return {
        "fired": sorted(answer["fired"], key=place),
        "late": sorted(answer["late"], key=lambda each: each[:2]),
        "event": sorted(answer["event"], key=str),
        "processing": sorted(answer["processing"], key=str),
    }


def random_trace(chance: random.Random):
    """Return one trace."""
    assigner = _assigner(chance)
    kind = assigner[0].partition("-")[0]
    natural = assigner[-1] == "NATURAL"  # in Flink the keys of a subtask share the offset
    trigger = _trigger(chance, kind)
    endless = kind == "global" and "continuous-event" in str(trigger)  # in Flink it fires up to the end of time
    chosen = chance.choice(["count", "delta", "time"])
    return {
        "assigner": assigner,
        "trigger": trigger,
        "evictor": [chosen, chance.randint(0, 4) if chosen == "count" else chance.randint(0, 20), chance.random() < 0.5]
        if chance.random() < 0.35
        else None,
        "lateness": chance.choice([0, 0, chance.randint(1, 25)]),
        "function": chance.choice(["process", "aggregate"]),
        "steps": _steps(chance, keys=1 if natural else chance.randint(1, 3), endless=endless),
    }


def _assigner(chance):
    clock = chance.choice(["event", "event", "processing"])
    size = chance.randint(1, 30)
    match chance.choice(["tumbling", "sliding", "session", "session", "dynamic", "global"]):
        case "tumbling":
            return [
                f"tumbling-{clock}",
                size,
                chance.randint(1 - size, size - 1),
                chance.choice(["ALIGNED", "NATURAL"]),
            ]
        case "sliding":
            slide = chance.randint(max(1, size // 4), size + 5)
            return [f"sliding-{clock}", size, slide, chance.randint(1 - slide, slide - 1)]
        case "session":
            return [f"session-{clock}", size]
        case "dynamic":
            return [f"dynamic-{clock}"]
    return ["global"]


def _trigger(chance, kind):
    merges = kind in ("session", "dynamic")
    simple = ["count", "continuous-event", "continuous-processing"]
    simple += ["never", "end-of-stream"] if kind == "global" else ["event", "processing"]
    simple += [] if merges else ["delta"]
    name = chance.choice([None, "purging", *([] if merges else ["timeout"]), *simple])
    match name:
        case None:
            return None
        case "purging":
            return [name, _trigger_inside(chance, simple)]
        case "timeout":
            inside = _trigger_inside(chance, simple)
            inside = ["purging", inside] if chance.random() < 0.3 else inside
            return [name, inside, chance.randint(0, 20), chance.random() < 0.5, chance.random() < 0.5]
    return _trigger_inside(chance, [name])


def _trigger_inside(chance, names):
    name = chance.choice(names)
    match name:
        case "count":
            return [name, chance.randint(1, 4)]
        case "delta" | "continuous-event" | "continuous-processing":
            return [name, chance.randint(1, 15)]
    return [name]


def _steps(chance, *, keys, endless):
    base = chance.choice(BASES)
    steps, ends = [], set()
    watermark, now = None, max(base, 0)
    if now:
        steps.append(["p", now])  # a leap among the steps would fire continuous triggers without end
    for n in range(chance.randint(5, 40)):
        what = chance.random()
        if what < 0.65:
            timestamp, key = base + chance.randint(0, 100), "abc"[chance.randrange(keys)]
            timestamp = (
                max(timestamp, (base if watermark is None else watermark) - 30) if chance.random() < 0.7 else timestamp
            )
            gap = chance.randint(1, 20)
            while (key, timestamp + gap) in ends or (key, now + gap, "now") in ends:
                gap += 1
            ends |= {(key, timestamp + gap), (key, now + gap, "now")}
            steps.append(["e", key, n, chance.randint(0, 30), gap, timestamp])
        elif what < 0.85:
            watermark = (base - 10 if watermark is None else watermark) + chance.randint(1, 25)
            steps.append(["w", watermark])
        else:
            now += chance.randint(0, 25)
            steps.append(["p", now])
    if not endless and chance.random() < 0.5:
        steps.append(["w", MAX_TIME])
    return steps
