"""WHOLE: lives of a query in which anything happens, in any order."""

from __future__ import annotations

from tidegate.conformance.declaring import rule
from tidegate.conformance.errors import SkippedError
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.rules import Tier

__all__ = ["check_whatever_happens_every_row_comes_once", "check_whatever_happens_splits_stay_aligned"]

_SECONDS = 8.0
_TESTED = (
    "Hypothesis makes up lives of a query, of up to 25 steps each, on a virtual clock. Rows and splits come and are "
    "deleted, and splits are completed. Batches are planned, read and committed. The planner process is killed before "
    "and after a commit, and restarts from its JSON offset. Splits become idle and wake. Some runs are bounded. The "
    "cluster is resized. A judge that shares no code with the planner checks every row."
)
_LOOK_AT = (
    "starts() of a split that comes later",
    "enumerator(state) with the state of an earlier run",
    "a row that only one of extents() and peek() sees",
    "a reader that depends on anything but the range",
)


@rule(
    "WHOLE-1",
    "whatever happens, every row comes once",
    tier=Tier.STATEFUL,
    purpose="A restart at the wrong moment breaks a connector. No handwritten test covers every moment.",
    tested=_TESTED,
    passes="Every row is delivered once, and in order, unless it was deleted before it was read.",
    look_at=_LOOK_AT,
    witness=("a batch read again", "a crash after a commit", "a bounded run"),
    source="docs/guarantees.md",
)
def check_whatever_happens_every_row_comes_once(lab: Lab) -> None:
    """Make up lives without alignment."""
    _live(lab, (None,))


@rule(
    "WHOLE-2",
    "whatever happens, splits stay aligned",
    tier=Tier.STATEFUL,
    purpose="If a restart or a split that wakes ends the alignment, the rows of all other splits are late.",
    tested=_TESTED + " The max drift is 1 s, 10 s or 60 s.",
    passes="No batch reads past the bound. No watermark goes back, or passes an unread row. No row waits forever.",
    look_at=("lookup(), peek() and latest()", "extents(): settled and complete", *_LOOK_AT),
    witness=("a pause", "a batch read again"),
    source="FLIP-182; docs/guarantees.md",
)
def check_whatever_happens_splits_stay_aligned(lab: Lab) -> None:
    """Make up lives with alignment."""
    _live(lab, (10, 1, 60))


def _live(lab: Lab, drifts_s: tuple[int | None, ...]) -> None:
    try:
        from tidegate.conformance.lab.machine import live_many_lives
    except ModuleNotFoundError:
        raise SkippedError("Hypothesis is not installed: pip install 'tidegate[conformance]'") from None
    live_many_lives(lab, drifts_s, _SECONDS)
