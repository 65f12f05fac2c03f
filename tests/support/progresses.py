"""Made-up progress of queries, as Spark has it: an aligned run over splits that begin at different times."""

import json
from dataclasses import replace
from datetime import datetime, timezone

from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.sources.progress.query import PlanFacts, QueryProgress

PROVEN = PlanFacts(reads_once=True, counts_late=True, counts_open=True, counts_all=True)
NOON = 1_700_049_600_000
MINUTE = 60_000
HOUR = 60 * MINUTE


def report(**fields):
    """Return the JSON of a SourceProgress, of one split that has just begun."""
    return {
        "watermark": NOON - MINUTE,
        "bound": NOON + HOUR,
        "low": NOON,
        "heldBy": "orders-0",
        "groupBound": None,
        "splits": {"reading": 1},
        "spread": [NOON + HOUR, NOON + HOUR, NOON + HOUR],
        "plannedRows": 100,
        "rowsRemaining": 900,
        "eventTimeLag": 5 * HOUR,
        "oldestEventTime": NOON,
        "currentFetchEventTimeLag": 5 * HOUR,
        "mostBehind": ["orders-0", 900, 5 * HOUR],
        "lateRows": 0,
        "lateRowsTotal": 0,
        "lateSplits": [],
        "paused": {},
        "lookups": 1,
        "peeks": 2,
        "inexactSplits": 0,
        "timeToDeletion": {},
        "bySplit": {"orders-0": ["reading", NOON + HOUR, 900]},
        "planner": "9f1c",
        "reads": "orders at kafka:9092",
        **fields,
    }


def offset(position, **fields):
    """Return an offset of a Kafka source with one split."""
    return {**INITIAL_OFFSET, "source": "kafka", "positions": {"orders-0": position}, **fields}


def source(said, *, moves=True, rows=100):
    """Return what Spark says of a source.

    said: its report, or another source's latest offset.
    moves: its batch has a part in the query's, which covers one position.
    rows: by Spark's own count.
    """
    return {"startOffset": offset(0), "endOffset": offset(int(moves)), "latestOffset": said, "numInputRows": rows}


def progress(number, *sources, **fields):
    return {
        "id": "7254cabc",
        "runId": "a145ff5a",
        "name": None,
        "timestamp": f"2026-11-21T08:00:{number % 60:02}.626Z",
        "batchId": number,
        "batchDuration": 400 + 10 * number,
        "stateOperators": [],
        "sources": list(sources),
        **fields,
    }


def one(number, rows=10, **fields):
    """Return the progress of a batch over one split."""
    return progress(number, source(report(plannedRows=rows, **fields), moves=rows > 0))


def typed(said, plan=None, first=None):
    """Return what tidegate makes of a progress, with what is known of its run."""
    return replace(QueryProgress.parse(json.dumps(said)), plan=plan, first=first)


def run(splits, batches=24, first=0, **fields):
    """Return the progress of a run over ``batches`` hours: a tenth of the splits begins 8 hours late."""
    names = [f"orders-{number}" for number in range(splits)]
    begins = {name: NOON + (8 * HOUR if i % 10 == 2 else i % 7 * MINUTE) for i, name in enumerate(names)}
    found = []
    for number in range(batches):
        low = NOON + number * HOUR
        bound, left = low + HOUR, (batches - number - 1) * 100
        next_ms = {
            s: max(bound + i % 5 * 9 * MINUTE, begin) if left else None for i, (s, begin) in enumerate(begins.items())
        }
        paused = [s for s, begin in begins.items() if begin >= bound]
        times = sorted(at_ms for at_ms in next_ms.values() if at_ms is not None)
        rows = 100 * (splits - len(paused)) * (1 + number % 3)
        said = report(
            watermark=bound - MINUTE,
            bound=bound,
            low=low,
            splits={"paused": len(paused), "reading": splits - len(paused)},
            spread=[times[0], times[(splits - 1) // 2], times[-1]] if times else None,
            plannedRows=rows,
            rowsRemaining=left * splits,
            lateRows=17 if number == 5 else 0,
            lateRowsTotal=17 if number >= 5 else 0,
            mostBehind=["orders-0", left, 5 * HOUR] if left else None,
            bySplit={s: ["paused" if s in paused else "reading", next_ms[s], left] for s in names},
        )
        if splits > 100:
            del said["bySplit"]
        at = datetime.fromtimestamp((low - MINUTE) / 1000 if number else 0, timezone.utc)
        found.append(
            progress(
                first + number,
                source(said),
                eventTime={"watermark": f"{at:%Y-%m-%dT%H:%M:%S}.000Z"},
                **fields,
            )
        )
    return found
