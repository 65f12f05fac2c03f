"""WHOLE: lives of a query in which anything happens, in any order."""

from __future__ import annotations

from tidegate.conformance.declaring import rule
from tidegate.conformance.errors import SkippedError
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.rules import Tier

__all__ = ["check_whatever_happens_every_row_comes_once", "check_whatever_happens_splits_stay_aligned"]

_SECONDS = 8.0
_TESTED = (
    "Hypothesis makes up lives of up to 25 steps, with a virtual clock. Rows and splits come, are completed and "
    "deleted. Batches are planned, read and committed. The planner is killed before and after a commit, and "
    "restarted from its JSON. Splits fall idle and wake, runs are bounded, and the cluster is resized. A judge that "
    "shares no code with the planner looks at every row. "
)
_LOOK_AT = (
    "starts() of a split that comes later",
    "what enumerator(state) does with the state of an earlier run",
    "whether extents() and peek() agree on what is there",
    "whether a reader depends on anything but the range",
)


@rule(
    "WHOLE-1",
    "whatever happens, every row comes once",
    tier=Tier.STATEFUL,
    purpose="What breaks a connector is a restart at the wrong moment, which no single test thinks of.",
    tested=_TESTED,
    passes="Every row that was not deleted before it was read is delivered once, and in order.",
    look_at=_LOOK_AT,
    witness=("a batch read again", "a crash after a commit", "a bounded run"),
    source="docs/guarantees.md",
)
def check_whatever_happens_every_row_comes_once(lab: Lab) -> None:
    """Live unaligned."""
    _live(lab, (None,))


@rule(
    "WHOLE-2",
    "whatever happens, splits stay aligned",
    tier=Tier.STATEFUL,
    purpose="Alignment that is lost in a restart, or by a split that wakes, makes the rows of all others late.",
    tested=_TESTED + "With a max drift of 1 to 60 s.",
    passes="No batch reads past the bound, no watermark goes back or passes a row that is there, none waits forever.",
    look_at=("lookup(), peek() and latest()", "settled and complete of an extent", *_LOOK_AT),
    witness=("a pause", "a batch read again"),
    source="FLIP-182; docs/guarantees.md",
)
def check_whatever_happens_splits_stay_aligned(lab: Lab) -> None:
    """Live aligned."""
    _live(lab, (10, 1, 60))


def _live(lab: Lab, drifts_s: tuple[int | None, ...]) -> None:
    try:
        from tidegate.conformance.lab.machine import live_many_lives
    except ModuleNotFoundError:
        raise SkippedError("Hypothesis is not installed: pip install 'tidegate[conformance]'") from None
    live_many_lives(lab, drifts_s, _SECONDS)
