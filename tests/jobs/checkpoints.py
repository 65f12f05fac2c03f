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
    notes = {"batchWatermarkMs": of_spark, "conf": {"a": "{}"}}
    for name, lines in (("offsets", [json.dumps(notes), *others, end]), ("commits", ["{}"])):
        if name == "commits" and not committed:
            continue
        kept = [
            f"{at - 1}:{line}" if version == 2 and at and name == "offsets" else line for at, line in enumerate(lines)
        ]
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / str(number)).write_text("\n".join([f"v{version}", *kept]))
