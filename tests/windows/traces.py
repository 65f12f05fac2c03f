"""Traces: random parts of a window operator, and the rows and times for it.

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
import warnings
from datetime import timedelta
from itertools import groupby

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
)
from tidegate.windows.key_run import KeyRun
from tidegate.windows.state.store import MemoryKeyStore
from tidegate.windows.window import MAX_TIME, MIN_TIME

BASES = (0, -1000, 1461756862000)  # windows around 1970 cross from negative to positive times


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


ASSIGNERS = {
    "tumbling-event": lambda size, offset: TumblingEventTimeWindows.of(ms(size), ms(offset)),
    "tumbling-processing": lambda size, offset: TumblingProcessingTimeWindows.of(ms(size), ms(offset)),
    "sliding-event": lambda *times: SlidingEventTimeWindows.of(*map(ms, times)),
    "sliding-processing": lambda *times: SlidingProcessingTimeWindows.of(*map(ms, times)),
    "session-event": lambda gap: EventTimeSessionWindows.with_gap(ms(gap)),
    "session-processing": lambda gap: ProcessingTimeSessionWindows.with_gap(ms(gap)),
    "dynamic-event": lambda: DynamicEventTimeSessionWindows.with_dynamic_gap(gap_of),
    "dynamic-processing": lambda: DynamicProcessingTimeSessionWindows.with_dynamic_gap(gap_of),
    "global": GlobalWindows.create,
}
TRIGGERS = {
    "event": EventTimeTrigger.create,
    "processing": ProcessingTimeTrigger.create,
    "count": CountTrigger.of,
    "delta": lambda threshold: DeltaTrigger.of(threshold, distance),
    "continuous-event": lambda interval: ContinuousEventTimeTrigger.of(ms(interval)),
    "continuous-processing": lambda interval: ContinuousProcessingTimeTrigger.of(ms(interval)),
    "purging": lambda nested: PurgingTrigger.of(trigger_of(nested)),
    "timeout": lambda nested, timeout, *flags: ProcessingTimeoutTrigger.of(trigger_of(nested), ms(timeout), *flags),
    "end-of-stream": EndOfStreamTrigger.create,
    "never": NeverTrigger.create,
}


def assigner_of(parts):
    return ASSIGNERS[parts[0]](*parts[1:])


def trigger_of(parts):
    return None if parts is None else TRIGGERS[parts[0]](*parts[1:])


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
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "GlobalWindows with .* keeps state for ever")
        return WindowOperator(assigner_of(trace["assigner"]), function, *parts)


class Player:
    """Plays traces.

    at_once: each key's rows of an epoch are taken together.  reopened: keys are closed after each epoch.
    """

    def __init__(self, operator, *, at_once=False, reopened=False):
        self.operator, self.at_once, self.reopened = operator, at_once, reopened
        self.answer = {"fired": [], "late": [], "event": [], "processing": []}
        self.stores, self.runs, self.waiting = {}, {}, {}
        self.epoch, self.watermark, self.now = 0, MIN_TIME, 0

    def run_of(self, key):
        if key not in self.runs:
            self.runs[key] = KeyRun(self.operator, key, self.stores.setdefault(key, MemoryKeyStore()), self.now)
            self.runs[key].advance_watermark(self.watermark)
        return self.runs[key]

    def collect(self):
        for key, run in self.runs.items():
            for window, (seen, payload), timer, _ in run.results:
                self.answer["fired"].append([self.epoch, key, window.start, window.end, timer, seen, payload])
            self.answer["late"] += [[self.epoch, key, row["n"]] for row in run.late]
            run.results.clear()
            run.late.clear()

    def element(self, key, n, value, gap, timestamp):
        row = {"n": n, "value": value, "gap": gap}
        if self.at_once:
            self.waiting.setdefault(key, []).append((row, timestamp))
        else:
            self.run_of(key).process_element(row, timestamp)
            self.collect()

    def end_epoch(self):
        for number, (key, rows) in enumerate(self.waiting.items()):
            held = [row for row, _ in rows]
            as_columns = pa.RecordBatch.from_pylist(held) if number % 2 == 0 else held
            self.run_of(key).process_elements(as_columns, [timestamp for _, timestamp in rows])
        self.waiting.clear()
        self.collect()

    def close(self):
        for run in self.runs.values():
            run.close()
        self.runs.clear()

    def advance(self, kind, time):
        self.end_epoch()
        if self.reopened:
            self.close()
        self.epoch += 1
        for key in self.stores:
            run = self.run_of(key)
            if kind == "w":
                run.advance_watermark(time)
            else:
                run.advance_processing_time(time)
        self.watermark, self.now = (time, self.now) if kind == "w" else (self.watermark, time)
        self.collect()

    def end(self):
        self.end_epoch()
        for key, run in self.runs.items():
            self.answer["event"] += [[key, *timer] for timer in run.event_timers()]
            self.answer["processing"] += [[key, *timer] for timer in run.processing_timers()]
        self.close()
        return self.answer


def answer_of(trace, **ways):
    """Return the operator's answer to a trace."""
    player = Player(operator_of(trace), **ways)
    for step in trace["steps"]:
        if step[0] == "e":
            player.element(*step[1:])
        else:
            player.advance(*step)
    return player.end()


WAYS = ({}, {"reopened": True}, {"at_once": True}, {"at_once": True, "reopened": True})


def comparable(answer):
    """Return an answer in an order that does not depend on keys, or on timers at one time: Flink promises none."""
    fired = []
    for (_, _, timer), group in groupby(
        sorted(answer["fired"], key=lambda result: result[:2]), lambda result: (*result[:2], result[4])
    ):
        together = list(group)
        fired += together if timer is None else sorted(together, key=lambda result: (result[2] is None, result[2:4]))
    return {
        "fired": fired,
        "late": sorted(answer["late"], key=lambda late: late[:2]),
        "event": sorted(answer["event"], key=str),
        "processing": sorted(answer["processing"], key=str),
    }


def random_trace(chance: random.Random):
    """Return one trace."""
    assigner = _assigner(chance)
    kind = assigner[0].partition("-")[0]
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
        "steps": _steps(chance, keys=chance.randint(1, 3), endless=endless),
    }


def _assigner(chance):
    clock = chance.choice(["event", "event", "processing"])
    size = chance.randint(1, 30)
    match chance.choice(["tumbling", "sliding", "session", "session", "dynamic", "global"]):
        case "tumbling":
            return [f"tumbling-{clock}", size, chance.randint(1 - size, size - 1)]
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
        steps.append(["p", now])  # with a leap among the steps, continuous triggers would fire without end
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
