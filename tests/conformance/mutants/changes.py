"""Sins as functions: a part of the reference connector whose ranges, batches, values or answers are changed."""

from __future__ import annotations

import pyarrow as pa

from tests.conformance.memory.reference import MemoryEnumerator, MemoryReader
from tests.conformance.mutants.mutant import sinful
from tidegate.readers.contract import ReadTask


def ranges(change):
    """Return a harness whose reader reads other ranges than those of the task."""

    class Changed(MemoryReader):
        def read(self, task):
            return super().read(ReadTask(tuple(change(task.ranges))))

    return sinful(reader=Changed)


def rows(change, base=MemoryReader):
    """Return a reader that changes what it has read, all batches of a task together."""

    class Changed(base):
        def read(self, task):
            yield from change(super().read(task))

    return Changed


def batches(change):
    """Return a harness whose reader yields other batches than it has read."""
    return sinful(reader=rows(lambda read: map(change, read)))


def values(change):
    """Return a harness whose reader changes the values of rows."""

    def changed(batch):
        texts = [change(text) for text in batch.column("value").to_pylist()]
        return batch.set_column(1, "value", pa.array(texts, pa.string()))

    return batches(changed)


def times(change):
    """Return a harness whose reader changes event times, in ms."""

    def changed(batch):
        known = batch.column("at").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
        field = batch.schema.field("at")
        return batch.set_column(2, field, pa.array(map(change, known), pa.timestamp("ms", "UTC")).cast(field.type))

    return batches(changed)


def answers(method, change):
    """Return an enumerator that changes the answer of a method: ``change(enumerator, answer, *arguments)``."""

    def changed(self, *arguments, **keywords):
        answer = getattr(MemoryEnumerator, method)(self, *arguments, **keywords)
        return change(self, answer, *arguments, **keywords)

    return type("Changed", (MemoryEnumerator,), {method: changed})


def extents(change):
    """Return a harness whose enumerator changes each extent."""
    return sinful(enumerator=answers("extents", lambda _, held, __: {s: change(e) for s, e in held.items()}))
