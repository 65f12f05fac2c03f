"""A clock that moves only when someone sleeps, or a test sets it."""

from bisect import bisect_right

from tidegate.enumerators.clocks import Clocks

WALL = 1_700_000_000.0  # what the wall clock of a test begins with


class Clock:
    """Seconds that pass only when someone sleeps."""

    begin_s = WALL
    adjusted_s = 0.0

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def wall(self):
        return self.begin_s + self.now + self.adjusted_s

    @property
    def clocks(self):
        return Clocks(self, self.wall, self.sleep)


def most_in_a_second(times_s):
    """Return how many of some rising times lie within a second, at most; one that rounding moved is not counted."""
    return max((bisect_right(times_s, at_s + 1 - 1e-6) - place for place, at_s in enumerate(times_s)), default=0)
