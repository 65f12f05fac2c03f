"""Finds what is opted out of although it is there: such a word would hide a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.alignment.index import SupportsTimeIndex
from tidegate.conformance.abilities import Ability
from tidegate.conformance.harness import Harness, HarnessFactory, Writer

__all__ = ["stale_opt_outs"]


def _writer_has(method: str) -> Callable[[Harness], str | None]:
    def look(harness: Harness) -> str | None:
        writer = type(harness.create_split())
        return f"{writer.__name__} has {method}()" if getattr(writer, method) is not getattr(Writer, method) else None

    return look


def _has_lookup(harness: Harness) -> str | None:
    enumerator = harness.source({}).enumerator(None)
    try:
        return f"{type(enumerator).__name__} has lookup()" if isinstance(enumerator, SupportsTimeIndex) else None
    finally:
        enumerator.close()


def _has_start_at_end(harness: Harness) -> str | None:
    return "start_at_end is set" if harness.start_at_end else None


_LOOKS: Mapping[Ability, Callable[[Harness], str | None]] = {
    Ability.FINITE_SPLITS: _writer_has("finish"),
    Ability.HOLES: _writer_has("leave_hole"),
    Ability.RETENTION: _writer_has("trim"),
    Ability.REMOVABLE_SPLITS: _writer_has("remove"),
    Ability.TIME_INDEX: _has_lookup,
    Ability.START_AT_END: _has_start_at_end,
}


def stale_opt_outs(make: HarnessFactory) -> dict[Ability, str]:
    """Return the abilities that a harness opts out of, but has what they need, each with what that is."""
    found = {}
    harness = make()
    try:
        for ability, look in _LOOKS.items():
            if ability in harness.abilities.opted_out and (why := look(harness)) is not None:
                found[ability] = why
    finally:
        harness.close()
    return found
