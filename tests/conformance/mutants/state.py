import time
from dataclasses import replace
from typing import ClassVar

from tests.conformance.memory.reference import MemoryEnumerator
from tests.conformance.mutants.mutant import Mutant, sinful
from tidegate.alignment.splits import Extent


class LooksForTheEndInEachRun(MemoryEnumerator):
    def __init__(self, source, state):
        super().__init__(source, state)
        self._ends = None

    def extents(self, splits):
        extents = super().extents(splits)
        if self._source.starting == "latest" and self._ends is None:
            self._ends = {split: extent.end for split, extent in extents.items()}
        ends = self._ends or {}
        return {s: Extent(max(e.begin, ends.get(s, 0)), e.end, complete=e.complete) for s, e in extents.items()}


class AcknowledgesWhatItPlans(MemoryEnumerator):
    """Keeps the planned positions outside of the checkpoint, and never goes back before them."""

    HANDED_OUT: ClassVar = {}

    def __init__(self, source, state):
        super().__init__(source, state)
        self._done = dict(self.HANDED_OUT.get(source.address, {}))

    def extents(self, splits):
        extents = super().extents(splits)
        self.HANDED_OUT[self._source.address] = {split: extent.end for split, extent in extents.items()}
        return {s: replace(e, begin=max(e.begin, self._done.get(s, 0))) for s, e in extents.items()}


def snapshot_with(more):
    """Return an enumerator whose snapshot has further values, which a restore ignores."""

    class SaysMore(MemoryEnumerator):
        def __init__(self, source, state):
            super().__init__(source, None if state is None else {k: v for k, v in state.items() if k in {"v", "store"}})

        def snapshot(self):
            return {**self._state, **more(self)}

    return sinful(enumerator=SaysMore)


class BelievesTheState(MemoryEnumerator):
    """Trusts the state without any check."""

    def __init__(self, source, state):
        super().__init__(source, None)
        self._state = {"v": 1, "store": self._client.name, "splits": {"skipped": 0}, **(state or {})}

    def discover(self):
        skipped = self._state["splits"]["skipped"]
        return super().discover()[skipped:]


class TrustsThatFieldsAreThere(BelievesTheState):
    def __init__(self, source, state):
        super().__init__(source, None)
        self._state = state or self._state


class ForgetsWithoutAField(BelievesTheState):
    def __init__(self, source, state):
        super().__init__(source, state)
        if state is not None and "splits" not in state:
            self._state["splits"] = {"skipped": 1}


MUTANTS = [
    Mutant("a start is resolved twice", "STATE-2", ("are gone",), sinful(enumerator=LooksForTheEndInEachRun)),
    Mutant("planned rows count as done", "STATE-7", ("gone",), sinful(enumerator=AcknowledgesWhatItPlans)),
    Mutant(
        "a tuple in the snapshot",
        "STATE-10",
        ("and after JSON",),
        snapshot_with(lambda _: {"splits": ("a", "b")}),
    ),
    Mutant("NaN in the snapshot", "STATE-10", ("is not JSON",), snapshot_with(lambda _: {"mean": float("nan")})),
    Mutant(
        "a clock in the JSON",
        "SPLIT-10",
        ("nothing was added", "snapshot() changed"),
        snapshot_with(lambda _: {"at": int(time.time())}),
        patience_s=2.0,  # until the clock shows another second
    ),
    Mutant(
        "non-canonical JSON",
        "STATE-12",
        ("in another process it becomes",),
        snapshot_with(
            lambda enumerator: {"splits": list({f"{split}{n}" for split in enumerator.discover() for n in range(20)})}
        ),
    ),
    Mutant(
        "a field that is missing is a KeyError",
        "STATE-14",
        ("no field 'splits'", "KeyError"),
        sinful(enumerator=TrustsThatFieldsAreThere),
    ),
    Mutant(
        "a field that is missing means something else",
        "STATE-14",
        ("no field 'splits'", "raises no error, but reads 2 rows"),
        sinful(enumerator=ForgetsWithoutAField),
    ),
]
