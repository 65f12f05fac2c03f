"""Logs once what the users of a query should know about its splits."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from tidegate.alignment.plan import Plan, SplitState
from tidegate.alignment.splits import SplitId
from tidegate.enumerators.contract import Divergence

_LOG = logging.getLogger("tidegate.planner")
_NAMED = 5


class RunLog:
    """The log of one run.  Splits are news only if they were not among those of the last plan."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._known: dict[str, set[SplitId]] = {}

    def begun(self, splits: int) -> None:
        """Log the number of splits that the query begins with."""
        _LOG.info("%s begins with %d splits", self._source, splits)

    def new_splits(self, splits: Collection[SplitId]) -> None:
        """Log that splits were found during the run."""
        if splits:
            _LOG.warning("%s found new splits, read from their beginning: %s", self._source, first_names(splits))

    def ended(self, planned: Plan, unread: int, held_by: str | None) -> None:
        """Log that a bounded run ends before others have been read to their targets, and what they wait for.

        held_by: the split, or the name of the member of the group, that sets the bound.
        """
        waiting = [s for s, split in planned.splits.items() if split.state is SplitState.PAUSED]
        holder = planned.splits.get(planned.held_by or "")
        is_held = planned.held_by is not None and (holder is None or holder.state is SplitState.CAUGHT_UP)
        if unread and is_held and self._news("unread at the end", waiting):
            _LOG.warning(
                "%s leaves %d positions of %s to the next run: %s may still get earlier records, and is not idle",
                self._source,
                unread,
                first_names(waiting),
                held_by,
            )

    def diverged(self, divergences: Mapping[SplitId, Divergence]) -> None:
        """Log that splits hold other records than those that were read, and that this loss is accepted."""
        for reason in sorted({divergence.reason for divergence in divergences.values()}):
            splits = [s for s, divergence in divergences.items() if divergence.reason == reason]
            _LOG.warning(
                "%s goes on from position %d with %s: %s (failOnDataLoss is false)",
                self._source,
                min(divergences[s].position for s in splits),
                first_names(splits),
                reason,
            )

    def unavailable(self, reasons: Mapping[SplitId, str]) -> None:
        """Log which splits are unavailable now.  Called before each plan, even without any."""
        if new := self._news("unavailable", reasons):
            _LOG.warning(
                "%s cannot look at %s, and the others wait for them at the bound: %s",
                self._source,
                first_names(new),
                reasons[min(new)],
            )

    def planned(
        self, removed: Collection[SplitId], late: Collection[SplitId], in_danger: Mapping[SplitId, int]
    ) -> None:
        """Log what a plan shows, and the seconds until retention deletes unread records.  Called after each plan."""
        if new := self._news("removed", removed):
            _LOG.warning("%s no longer finds splits, read no further: %s", self._source, first_names(new))
        if new := self._news("late", late):
            _LOG.warning("%s reads splits behind the watermark (lateSplits): %s", self._source, first_names(new))
        if new := self._news("in danger", in_danger):
            soonest = min(new, key=lambda split: in_danger[split])
            _LOG.warning(
                "%s will lose unread records of %s in about %d minutes to retention",
                self._source,
                soonest,
                in_danger[soonest] // 60,
            )

    def _news(self, kind: str, splits: Collection[SplitId]) -> set[SplitId]:
        """Return the splits that were not among those of the last plan."""
        before, self._known[kind] = self._known.get(kind, set()), set(splits)
        return self._known[kind] - before


def first_names(names: Collection[str]) -> str:
    """Return the first names in their order, and how many more there are."""
    shown = ", ".join(sorted(names)[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
