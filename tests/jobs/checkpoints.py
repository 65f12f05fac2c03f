"""Checkpoints of Spark, written by hand as Spark writes them."""

import json

from tidegate.alignment.plan import Progress
from tidegate.enumerators.planning.offset import Offset


def log_batch(folder, number, positions, *, source="kafka", state=None, committed=True, version=1, others=(), **fields):
    """Store the end of a batch.

    others: offsets of other sources of the query, as text.
    fields: others of the offset; ``watermarks``: Spark's for the batch, and the source's after it.
    """
    of_spark, of_source = fields.pop("watermarks", (0, None))
    progress = Progress(positions, watermark_ms=of_source, late=fields.pop("late", frozenset()))
    end = json.dumps(Offset(source, progress, enumerator=state, **fields).to_json())
    notes = json.dumps({"batchWatermarkMs": of_spark, "conf": {"a": "{}"}})
    ends = [f"{place}:{text}" if version == 2 else text for place, text in enumerate([*others, end])]
    write_log(folder, "offsets", number, notes, *ends, version=version)
    if committed:
        write_log(folder, "commits", number, "{}", version=version)


def write_log(folder, name, number, *lines, version=1):
    """Write a file of one of the two logs."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / str(number)).write_text("\n".join([f"v{version}", *lines]))
