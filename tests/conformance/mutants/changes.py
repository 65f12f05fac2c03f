"""Sins as functions: a part of the reference connector whose ranges, batches, values or answers are changed."""

from __future__ import annotations

from tests.conformance.memory.reference import MemoryReader
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
