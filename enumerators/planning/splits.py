"""The splits of a run: their starts, their ends, and the idle ones.

This is soft state: the offset holds the parts that a restart needs.  Rules are numbered as in ``docs/planning.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import ceil

from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Observed
from tidegate.alignment.splits import Extent, Extents, Positions, SplitId, SplitRange
from tidegate.alignment.standing import ends_of
from tidegate.enumerators.clocks import Clocks, Pause, with_pause
from tidegate.enumerators.contract import SplitEnumerator
from tidegate.enumerators.planning.offset import Offset, Quiet
from tidegate.enumerators.planning.run_log import RunLog
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.errors import DataLossError


class Splits:
    """Asks an enumerator for its splits, and remembers the answers in this run.

    stops: the configured ends.
    has_new_timers: in a bounded run, a split stands at its end, and the next run does not know since when.
    """

    def __init__(self, enumerator: SplitEnumerator, settings: CoordinatorSettings, log: RunLog, clocks: Clocks) -> None:
        self._enumerator, self._log = enumerator, log
        self._discovery_interval_s = settings.discovery_interval_s
        self._fail_on_data_loss = settings.limits.fail_on_data_loss
        self._timers = _IdleTimers(settings.watermarks.idle_timeout.total_seconds(), clocks)
        self._splits: dict[SplitId, None] = {}  # an ordered set
        self._discovered_at_s = self.looked_at_s = float("-inf")
        self._extents: Extents = {}
        self._away: Mapping[SplitId, str] = {}  # the reasons why they are unavailable
        self._diverged: dict[SplitId, int] = {}  # their next positions, until an offset holds them
        self._known_removed: Collection[SplitId] = ()
        self.stops: dict[SplitId, int | None] = {}
        self.has_new_timers = False
        self._targets: dict[SplitId, int] | None = None

    def find(self, before: Offset, horizon_ms: int, *, bounded: bool, look: bool = True) -> Observed:
        """Return the splits that exist now, as a plan knows them.  Called before every plan.

        The starts of new splits are among their positions, and splits that are gone for good are not.  In a bounded run
        they end at its targets, and are idle only if they were before it began.

        horizon_ms: where the future begins.
        bounded: the run ends at the extents of its first call (rule 4).
        look: ask the enumerator; False: nothing has changed since the last call.

        Raises DataLossError when unread records are gone, unless that is accepted (rule 7).
        """
        progress, first = before.progress, before.is_first
        if look:
            self._refresh(all_needed=first or bounded)
        if bounded and self._targets is None:
            self._targets = {s: extent.end for s, extent in self._extents.items()}
        remembered = self._remembered(progress.positions)
        if look:
            self._find_divergences(remembered)
            self._find_stops()
        # A split without an extent waits: its start would be stored without a position.
        new = [s for s in self._splits if s in self._extents and s not in progress.positions]
        starts = {**self._diverged, **self._starts(new, first=first)}
        positions = {**remembered, **starts}
        self._extend_to(starts)
        available = {s: extent for s, extent in self._extents.items() if s in positions}
        # Rule 7: an unavailable split is not read.
        available |= {
            s: Extent(positions[s], positions[s], settled=s in progress.idle, available=False)
            for s in self._away
            if s in positions
        }
        extents = {s: self._up_to_target(s, extent, positions[s]) for s, extent in available.items()}
        if not self._timers.have_begun:
            since_ms = {split: at_ms for split, at_ms in before.quiet.since_ms.items() if split not in starts}
            wants_newest = bounded or since_ms
            newest_ms = self._newest_ms(positions, available, horizon_ms) if wants_newest else None
            self._timers.begin(before.quiet._replace(since_ms=since_ms), newest_ms, bounded=bounded)
        # A split at the target of a bounded run is not idle if its extent has more to read.
        idle = self._timers.observe(positions, available, progress.idle - starts.keys())
        quiet = self.quiet(positions, idle).since_ms.keys()
        self.has_new_timers = self._timers.must_store(quiet) or quiet > before.quiet.since_ms.keys() & quiet
        return Observed(replace(progress, positions=positions), extents, idle, starts)

    @property
    def diverged(self) -> Collection[SplitId]:
        """The splits that hold other records than the last offset says."""
        return self._diverged.keys()

    @property
    def due_s(self) -> float:
        """The time of the next change without a new extent: a split becomes idle, or discovery is due."""
        return min(self._discovered_at_s + self._discovery_interval_s, self._timers.due_s)

    def quiet(self, positions: Positions, idle: Collection[SplitId]) -> Quiet:
        """Return since when each split has stood at its end, for the timers of the next run.

        positions, idle: after the plan.  Idle splits are left out: they stay idle.  Empty if the run is not bounded.
        """
        if self._targets is None:
            return Quiet()
        return self._timers.quiet(
            positions, {s: e for s, e in self._extents.items() if s in positions and s not in idle}
        )

    def stored(self) -> None:
        """Learn that an offset holds the starts and the timers of the last ``find``."""
        self._diverged = {}
        self._timers.stored()

    def everything(self) -> list[SplitRange]:
        """Return the ranges of a batch query: every split from its start to its stop or its present end."""
        self._refresh(all_needed=True)
        self._find_stops()
        starts = self._starts(self._splits, first=True)
        ends = ends_of(self._extents, self.stops)
        return [SplitRange(s, starts[s], ends[s]) for s in self._splits if s in ends and starts[s] < ends[s]]

    def _refresh(self, *, all_needed: bool) -> None:
        now_s = self._timers.look()
        # Rule 4: a bounded run reads no split that is discovered after its begin.
        if now_s - self._discovered_at_s >= self._discovery_interval_s and self._targets is None:
            self._splits, self._discovered_at_s = dict.fromkeys(sorted(self._enumerator.discover())), now_s
        available = None if all_needed else self._enumerator.available_extents(self._splits)
        self._extents, self._away = available or (self._enumerator.extents(self._splits), {})
        self._log.unavailable(self._away)
        self.looked_at_s = now_s

    def _newest_ms(self, positions: Positions, extents: Extents, horizon_ms: int) -> int | None:
        """Return the greatest event time in all splits; None: it is not known."""
        # An index of its own: that of the plans remembers what had been read at a time.
        index = TimeIndex(self._enumerator)
        index.begin_plan(positions, extents, horizon_ms)
        there = {s: extent for s, extent in extents.items() if extent.available}
        return max((at_ms for at_ms in index.latest(there).values() if at_ms is not None), default=None)

    def _starts(self, new: Collection[SplitId], *, first: bool) -> dict[SplitId, int]:
        if not new:
            return {}
        starts = dict(self._enumerator.starts(new, first=first))
        if first:
            self._log.begun(len(starts))
        elif self._enumerator.new_splits_are_news:
            self._log.new_splits([s for s in new if not self._extents[s].complete])
        return starts

    def _extend_to(self, starts: Positions) -> None:
        """Extend the extents to starts: a start may have been resolved a moment after its extent."""
        late = {s: at for s, at in starts.items() if s in self._extents and self._extents[s].end < at}
        if late:
            self._extents = {**self._extents, **{s: replace(self._extents[s], end=at) for s, at in late.items()}}

    def _remembered(self, positions: Positions) -> Positions:
        """Return the positions without those of splits that are gone for good (rule 7)."""
        removed = {s: position for s, position in positions.items() if s not in self._splits}
        if removed.keys() - set(self._known_removed):
            forgotten = set(self._enumerator.forget(removed))
            removed = {s: position for s, position in removed.items() if s not in forgotten}
            if self._fail_on_data_loss and (lost := sorted(self._enumerator.lost(removed))):
                raise DataLossError(
                    f"split {lost[0]!r}, read up to position {removed[lost[0]]}, no longer exists; "
                    "set failOnDataLoss to false to continue without it"
                )
            positions = {s: position for s, position in positions.items() if s not in forgotten}
            self.stops = {s: stop for s, stop in self.stops.items() if s not in forgotten}
        self._known_removed = removed.keys()
        return positions

    def _find_divergences(self, positions: Positions) -> None:
        """Learn which splits hold other records now (rule 7)."""
        diverged = self._enumerator.validate(positions) if positions else {}
        if diverged and self._fail_on_data_loss:
            split = min(diverged)
            raise DataLossError(
                f"split {split!r} was read up to position {positions[split]}, but {diverged[split].reason}; start with "
                f"a new checkpoint, or set failOnDataLoss to false to continue from position {diverged[split].position}"
            )
        self._log.diverged(diverged)
        self._timers.forget(diverged)
        # A plan may fail after this, and the enumerator returns it only once.
        self._diverged.update({s: divergence.position for s, divergence in diverged.items()})
        self._diverged = {s: at for s, at in self._diverged.items() if s in positions}
        if moved := {*diverged, *self._enumerator.take_moved_stops()}:
            self.stops = {s: stop for s, stop in self.stops.items() if s not in moved}

    def _find_stops(self) -> None:
        """Ask for the ends that are not known yet.  Nobody can say that of a split that is unavailable."""
        if without := [s for s in self._splits if s in self._extents and self.stops.get(s) is None]:
            self.stops |= self._enumerator.stops(without)

    def _up_to_target(self, split: SplitId, extent: Extent, position: int) -> Extent:
        if self._targets is None:
            return extent
        # Rule 4: the next run reads a split that got its first extent after this run's start.
        target = max(self._targets.get(split, extent.begin), extent.begin, position)
        return extent if extent.end <= target else replace(extent, end=target, more=True, complete=False)


class _IdleTimers:
    """Remembers since when each split has had nothing to read, by its extent, not by rows seen.

    A plan may take long, and a split is known to be quiet only up to the look that found its extent.
    """

    def __init__(self, timeout_s: float, clocks: Clocks) -> None:
        self._timeout_s, self._clocks = timeout_s, clocks
        self._since_s: dict[SplitId, float] = {}
        self._begun_s, self._begun = float("-inf"), Quiet()
        self._is_bounded = self.have_begun = self._is_corrected = False
        self._looked_s, self._looked_ms = float("-inf"), 0
        self.due_s = float("inf")  # the next split becomes idle

    def look(self) -> float:
        """Learn that extents are asked for now, and return the time."""
        self._looked_s, self._looked_ms = self._clocks.monotonic(), int(self._clocks.wall() * 1000)
        return self._looked_s

    def begin(self, stored: Quiet, newest_ms: int | None, *, bounded: bool) -> None:
        """Let the timers of the run before go on.

        stored: without splits that start anew.
        newest_ms: the greatest event time in all splits; None: no split has one, or no timer needs it.
        """
        self.have_begun, self._is_bounded, self._begun_s = True, bounded, self._looked_s
        self._begun = Quiet(begun_ms=self._looked_ms, newest_ms=newest_ms)
        passed_ms = _passed_ms(stored, self._begun)
        self._is_corrected = bounded and passed_ms != self._begun.begun_ms - stored.begun_ms
        if bounded and stored.begun_ms:
            usual, pause = Pause.usual(stored.pauses), Pause(passed_ms, max(0, self._begun.begun_ms - stored.begun_ms))
            # A repeated run must not make a split idle that gets records from hour to hour; half is room for jitter.
            self._timeout_s = max(self._timeout_s, usual.certain_ms / 2000)
            if not self._is_corrected and 2 * pause.clock_ms < usual.clock_ms:
                # In a pause without records the clock alone counts, and event times may usually move slower.
                passed_ms = passed_ms * usual.certain_ms // usual.clock_ms
                pause = pause._replace(certain_ms=passed_ms)
            self._begun = self._begun._replace(pauses=with_pause(stored.pauses, pause))
        # A split may have become quiet long after that run began, and then no time has certainly passed.
        quiet_ms = {split: max(0, passed_ms + stored.begun_ms - at_ms) for split, at_ms in stored.since_ms.items()}
        self._since_s = {split: self._begun_s - each_ms / 1000 for split, each_ms in quiet_ms.items()}

    def observe(self, positions: Positions, extents: Extents, idle_before: Collection[SplitId]) -> set[SplitId]:
        """Return the splits that are idle now.

        idle_before: in the last offset, without splits that start anew.  At a restart, a split to which nothing came is
            still idle.
        """
        now_s, known_s = self._clocks.monotonic(), self._since_s
        # Rule 4: a bounded run makes no split idle for which it only waited.
        judged_s = self._begun_s if self._is_bounded else self._looked_s
        self._since_s = {
            split: known_s.get(split, judged_s - self._timeout_s if split in idle_before else now_s)
            for split, extent in extents.items()
            if _has_nothing_to_read(extent, positions[split])
        }
        idle = {split for split, since_s in self._since_s.items() if since_s <= judged_s - self._timeout_s}
        waiting = (since_s for split, since_s in self._since_s.items() if split not in idle)
        self.due_s = min(waiting, default=float("inf")) + self._timeout_s
        return idle

    def forget(self, splits: Collection[SplitId]) -> None:
        """Let the timers of splits begin anew."""
        self._since_s = {s: since_s for s, since_s in self._since_s.items() if s not in splits}

    def must_store(self, quiet: Collection[SplitId]) -> bool:
        """Return whether the next run would be wrong about these splits with the timers in the last offset."""
        return self._is_corrected and bool(quiet)

    def stored(self) -> None:
        """Learn that an offset holds the timers."""
        self._is_corrected = False

    def quiet(self, positions: Positions, extents: Extents) -> Quiet:
        """Return since when each split has stood at its end.

        Also of one that is not settled now: the next run learns whether its end has moved.
        """
        now_s, known_s, begun_ms = self._clocks.monotonic(), self._since_s, self._begun.begun_ms
        since_ms = {
            split: begun_ms + ceil((known_s.get(split, now_s) - self._begun_s) * 1000)
            for split, extent in extents.items()
            if positions[split] >= extent.end
        }
        return self._begun._replace(since_ms=since_ms)


def _passed_ms(before: Quiet, now: Quiet) -> int:
    """Return how much time has certainly passed between the begins of two runs.

    The clock of a driver may be wrong.  If records came, then no more time has passed than between their event times.
    """
    passed_ms = now.begun_ms - before.begun_ms
    if before.newest_ms is not None and now.newest_ms is not None and now.newest_ms > before.newest_ms:
        passed_ms = min(passed_ms, now.newest_ms - before.newest_ms)
    return max(0, passed_ms)


def _has_nothing_to_read(extent: Extent, position: int) -> bool:
    return extent.settled and position >= extent.end
