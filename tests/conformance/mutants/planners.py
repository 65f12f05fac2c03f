"""Planners with one sin: each wraps the coordinator of a source, or runs the coordinator of another source."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.support.offsets import unpacked
from tidegate.conformance.lab.planning import open_coordinator


class Around:
    """A planner that leaves everything to the coordinator of a source."""

    def __init__(self, source, clocks, cores):
        self.source, self.run = source, open_coordinator(source, clocks, cores)
        self.again = lambda other: open_coordinator(other, clocks, cores)

    def __getattr__(self, name):
        return getattr(self.run, name)


class Changed(Around):
    """A planner whose offsets are changed on their way in and out; nothing in them is packed."""

    asked = False

    def before(self, start):
        return start

    def after(self, start, end):
        return end

    def latest_offset(self, start, *limits):
        start = unpacked(start)
        given = self.before(dict(start))
        end = unpacked(self.run.latest_offset(given, *limits))
        self.asked = True
        return start if end == given else self.after(start, end)


class Forgetful(Changed):
    """A planner that does not find a key in the offset that it begins with."""

    def __init__(self, key, *opened):
        super().__init__(*opened)
        self.key = key

    def before(self, start):
        if not self.asked:
            start.pop(self.key, None)
        return start


def forgetting(key):
    return lambda *opened: Forgetful(key, *opened)


def of_another(change):
    """Return the function that opens the coordinator of a changed source."""
    return lambda source, clocks, cores: open_coordinator(change(source), clocks, cores)


def with_fields(**changes):
    return of_another(lambda source: source.model_copy(update=changes))


def with_strategy(**changes):
    return of_another(lambda source: source.model_copy(update={"watermarks": replace(source.watermarks, **changes)}))


def unaligned(source):
    return source.model_copy(update={"alignment": "none", "watermarks": replace(source.watermarks, max_drift=None)})


idle_at_once = with_strategy(idle_timeout=timedelta(milliseconds=1))


class IgnoresBoundedRuns(Around):
    def bound_run(self):
        pass


class OnceIdleAlwaysIdle(Changed):
    """Makes a split that wakes idle again as soon as it is read."""

    def __init__(self, *opened):
        super().__init__(*opened)
        self.ever = set()

    def before(self, start):
        self.ever.update(start.get("idle", ()))
        return {**start, "idle": sorted(self.ever)} if self.ever else start


class OnlyTheLargest(Changed):
    """Gives each batch only the rows of the split that has the most."""

    def after(self, start, end):
        before, now = start.get("positions", {}), end["positions"]
        steps = {split: now[split] - before.get(split, 0) for split in now}
        largest = max(steps, key=steps.__getitem__)
        end["positions"] = {split: now[split] if split == largest else before.get(split, 0) for split in now}
        return end
