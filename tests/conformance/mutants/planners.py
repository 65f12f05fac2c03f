"""Planners with one sin: each wraps the coordinator of a source, or runs the coordinator of another source."""

from __future__ import annotations

from tidegate.conformance.lab.planning import open_coordinator


class Around:
    """A planner that leaves everything to the coordinator of a source."""

    def __init__(self, source, clocks, cores):
        self.source, self.run = source, open_coordinator(source, clocks, cores)
        self.again = lambda other: open_coordinator(other, clocks, cores)

    def __getattr__(self, name):
        return getattr(self.run, name)


class Changed(Around):
    """A planner whose offsets are changed on their way in and out."""

    asked = False

    def before(self, start):
        return start

    def after(self, start, end):
        return end

    def latest_offset(self, start, *limits):
        given = self.before(dict(start))
        end = self.run.latest_offset(given, *limits)
        self.asked = True
        return start if end == given else self.after(start, end)
