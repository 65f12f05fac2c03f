"""WHOLE: lives of a query in which anything happens, in any order."""

from __future__ import annotations

from tidegate.conformance.errors import SkippedError
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.rules import Tier, rule

_SECONDS = 8.0
_DRIFTS_S = (10, 1, 60, None)


@rule(
    "WHOLE-1", tier=Tier.STATEFUL, witness=("a batch read again", "a crash after a commit", "a bounded run", "a pause")
)
def whatever_happens_every_row_comes_once_and_splits_stay_aligned(lab: Lab) -> None:
    try:
        from tidegate.conformance.machine import live_many_lives
    except ModuleNotFoundError:
        raise SkippedError("Hypothesis is not installed: pip install 'tidegate[conformance]'") from None
    live_many_lives(lab, _DRIFTS_S, _SECONDS)
