"""Finds what is opted out of although it is there: such a word would hide a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.alignment.index import SupportsTimeIndex
from tidegate.conformance.abilities import Ability, OptOut
from tidegate.conformance.harness import Harness, HarnessFactory, Writer, name_of

__all__ = ["OptedOut", "opted_out"]


@dataclass(frozen=True, slots=True)
class OptedOut:
    """What a connector goes without.

    connector: the harness's name.
    abilities: why, for each.
    stale: for those that it has nevertheless, the sentence that says what shows it.
    """

    connector: str
    abilities: Mapping[Ability, OptOut] = field(default_factory=dict)
    stale: Mapping[Ability, str] = field(default_factory=dict)


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


def opted_out(make: HarnessFactory) -> OptedOut:
    """Return what a connector goes without.  Raises what the harness and its source raise."""
    harness = make()
    try:
        found = {}
        for ability, look in _LOOKS.items():
            if ability in harness.abilities.opted_out and (why := look(harness)) is not None:
                found[ability] = f"{ability.name} is opted out of, but {why}"
        return OptedOut(name_of(harness), dict(harness.abilities.opted_out), found)
    finally:
        harness.close()
