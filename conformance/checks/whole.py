"""WHOLE: lives of a query in which anything happens, in any order."""

from __future__ import annotations

from tidegate.conformance.errors import SkippedError
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.rules import Tier, rule

_SECONDS = 8.0


@rule("WHOLE-1", tier=Tier.STATEFUL, witness=("a batch read again", "a crash after a commit", "a bounded run"))
def whatever_happens_every_row_comes_once(lab: Lab) -> None:
    _live(lab, (None,))


@rule("WHOLE-2", tier=Tier.STATEFUL, witness=("a pause", "a batch read again"))
def whatever_happens_splits_stay_aligned(lab: Lab) -> None:
    _live(lab, (10, 1, 60))


def _live(lab: Lab, drifts_s: tuple[int | None, ...]) -> None:
    try:
        from tidegate.conformance.lab.machine import live_many_lives
    except ModuleNotFoundError:
        raise SkippedError("Hypothesis is not installed: pip install 'tidegate[conformance]'") from None
    live_many_lives(lab, drifts_s, _SECONDS)
