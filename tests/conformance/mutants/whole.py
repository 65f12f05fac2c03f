from tests.conformance.memory.reference import MemoryReader
from tests.conformance.mutants.mutant import Mutant, sinful
from tidegate.alignment.horizon import Horizon
from tidegate.conformance.lab.planning import open_coordinator


class ReadsTheFirstRowOfALaterRunTwice(MemoryReader):
    def read(self, task):
        for number, batch in enumerate(super().read(task)):
            yield batch
            if number == 0 and task.ranges[0].start >= 3:
                yield batch.slice(0, 1)


class WatermarkByMax:
    """A planner whose watermark is that of the split that is furthest ahead, like Spark's watermark."""

    def __init__(self, source, clocks, cores):
        self._run, self._enumerator = open_coordinator(source, clocks, cores), source.enumerator(None)

    def __getattr__(self, name):
        return getattr(self._run, name)

    def latest_offset(self, start, *arguments):
        offset = self._run.latest_offset(start, *arguments)
        splits = self._enumerator.discover()
        ends = {s: e.end for s, e in self._enumerator.extents(splits).items() if offset["positions"].get(s, 0) >= e.end}
        times = [at for at in self._enumerator.latest(ends, Horizon()).values() if at is not None]
        known = [at for at in (offset.get("watermark"), *times) if at is not None]
        return {**offset, "watermark": max(known)} if known else offset


MUTANTS = [
    Mutant(
        "a row behind the third is read twice",
        "WHOLE-1",
        ("more than once", "scenario.crash"),
        sinful(reader=ReadsTheFirstRowOfALaterRunTwice),
    ),
    Mutant(
        "the watermark is the greatest of all splits",
        "WHOLE-1",
        ("has not waited for its split",),
        sinful(),
        WatermarkByMax,
    ),
]
