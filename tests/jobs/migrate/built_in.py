"""Checkpoints of queries with Spark's built-in Kafka source, written by hand as Spark writes them."""

import json


def write_checkpoint(folder, begins, batches, committed, version=1):
    """Write a checkpoint.

    begins: the first offset of each built-in source, by its place.
    batches: for each batch the offsets of the sources, in order; None: the source has none.
    committed: the number of written batches.
    """
    for place, offset in begins.items():
        write(folder / "sources" / str(place) / "0", b"\x00v1\n" + json.dumps(offset).encode())
    write(folder / "metadata", b'{"id":"a0c800b1"}')
    write(folder / "state" / "0" / "0" / "1.delta", b"state")
    for number, sources in enumerate(batches):
        texts = ["-" if source is None else json.dumps(source) for source in sources]
        named = [f"{place}:{text}" for place, text in enumerate(texts)] if version == 2 else texts
        write(folder / "offsets" / str(number), "\n".join([f"v{version}", '{"batchWatermarkMs":7}', *named]).encode())
        if number < committed:
            write(folder / "commits" / str(number), b'v1\n{"nextBatchWatermarkMs":7}')


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
