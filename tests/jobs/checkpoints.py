"""Checkpoints as Spark writes them, with offsets of tidegate and of Spark's own source."""

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


def write_checkpoint(folder, begins, batches, committed, version=1):
    """Write a checkpoint.

    begins: the first offset of each built-in source, by its place.
    batches: for each batch the offsets of the sources, in order, or by their places (version 2); None: the source has
        none.
    committed: the number of written batches.
    """
    for place, offset in begins.items():
        write(folder / "sources" / str(place) / "0", b"\x00v1\n" + json.dumps(offset).encode())
    write(folder / "metadata", b'{"id":"a0c800b1-4b5e-4f0e-9d3c-0b9a1c2d3e4f"}')
    write(folder / "state" / "0" / "0" / "1.delta", b"state")
    for number, sources in enumerate(batches):
        names_places = version == 2 or isinstance(sources, dict)
        places = sources.items() if isinstance(sources, dict) else enumerate(sources)
        lines = [
            f"{place}:" * names_places + ("-" if source is None else json.dumps(source)) for place, source in places
        ]
        conf = {"spark.sql.shuffle.partitions": "2"}  # Spark 4.2.0 compares it with that of the batch before
        metadata = {"batchWatermarkMs": 7, "batchTimestampMs": 1000 + number, "conf": conf}
        header = [f"v{1 + names_places}", json.dumps(metadata)]
        write(folder / "offsets" / str(number), "\n".join([*header, *lines]).encode())
        if number < committed:
            write(folder / "commits" / str(number), b'v1\n{"nextBatchWatermarkMs":7}')


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
