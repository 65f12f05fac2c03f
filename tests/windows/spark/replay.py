"""The batches of a query, handed to the pure operator: the checkpoint has the rows and the watermark of each batch."""

import json
from pathlib import Path

from tidegate.enumerators.planning.offset import Offset
from tidegate.sources.tasks import END_OF_TIME_MS
from tidegate.windows.window import MAX_TIME, MIN_TIME

FIRST_SOURCE = 2  # the line of the first source in a file of Spark's offset log


def batches(checkpoint):
    """Return the offset of a query's first source after each batch."""
    logs = sorted(Path(checkpoint, "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [Offset.from_json(json.loads(log.read_text().splitlines()[FIRST_SOURCE])).progress for log in logs]


def replayed(harness, checkpoint, splits, position, skipped=()):
    """Hand the batches of a query to the pure operator; return the results that fired, and the late rows.

    splits: the key and the event times of all rows in ms, by the id of the split.
    position: the column with the number of a row.
    skipped: the numbers of batches that the sink had when Spark was killed.  Spark did not run them again, and so
        learned no watermark from them.
    """
    begins = dict.fromkeys(splits, 0)
    for number, batch in enumerate(batches(checkpoint)):
        for split, (key, times) in splits.items():
            end = batch.positions.get(split, begins[split])
            for row in range(begins[split], end):
                harness.element(key, {position: row}, int(times[row]))
            begins[split] = end
        if number in skipped:
            continue
        harness.watermark(MAX_TIME if batch.ended else watermark_of_spark(batch.watermark_ms))
    assert begins == {split: len(times) for split, (_, times) in splits.items()}
    panes = [
        (pane.key, pane.start_ms, pane.end_ms, sorted(row[position] for row in pane.rows)) for pane in harness.panes
    ]
    return sorted(panes, key=str), sorted(row[position] for row in harness.late)


def watermark_of_spark(watermark_ms):
    """Return the source's watermark for one of Spark, which has none before 1970, and a last one."""
    if watermark_ms is None or watermark_ms <= 0:
        return MIN_TIME
    return MAX_TIME if watermark_ms >= END_OF_TIME_MS else watermark_ms
