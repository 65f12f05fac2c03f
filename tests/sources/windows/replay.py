"""The batches of a query, handed to the pure operator: its checkpoint tells which rows each had, and the watermark."""

import json
from pathlib import Path

from tidegate.enumerators.planning.offset import Offset
from tidegate.windows.window import MAX_TIME, MIN_TIME

FIRST_SOURCE = 2  # lines that come before it in a file of Spark's offset log


def batches(checkpoint):
    """Return how far each batch has brought the first source of a query."""
    logs = sorted(Path(checkpoint, "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [Offset.from_json(json.loads(log.read_text().splitlines()[FIRST_SOURCE])).progress for log in logs]


def replayed(harness, checkpoint, splits, position):
    """Hand the batches of a query to the pure operator; return what fired, and what was late.

    splits: by their ids: the key, and the event times of all rows in ms.
    position: the column of a row that tells which one it is.
    """
    begins = dict.fromkeys(splits, 0)
    for batch in batches(checkpoint):
        for split, (key, times) in splits.items():
            end = batch.positions.get(split, begins[split])
            for number in range(begins[split], end):
                harness.element(key, {position: number}, int(times[number]))
            begins[split] = end
        harness.watermark(_of_spark(MAX_TIME if batch.ended else batch.watermark_ms))
    assert begins == {split: len(times) for split, (_, times) in splits.items()}
    panes = [
        (pane.key, pane.start_ms, pane.end_ms, sorted(row[position] for row in pane.rows)) for pane in harness.panes
    ]
    return sorted(panes, key=str), sorted(row[position] for row in harness.late)


def _of_spark(watermark_ms):
    """Return what Spark makes of a watermark: it has none before 1970."""
    return MIN_TIME if watermark_ms is None or watermark_ms <= 0 else watermark_ms
