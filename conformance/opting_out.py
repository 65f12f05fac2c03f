"""Finds what is opted out of although it is there: such a word would hide a failure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
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


_METHODS: Mapping[Ability, str] = {
    Ability.FINITE_SPLITS: "finish",
    Ability.HOLES: "leave_hole",
    Ability.RETENTION: "trim",
    Ability.REMOVABLE_SPLITS: "remove",
}


def _has_methods(harness: Harness, abilities: Collection[Ability]) -> Iterator[tuple[Ability, str]]:
    # One writer for all: not every harness can make more than one.
    writer = type(harness.create_split()) if abilities else Writer
    for ability in abilities:
        method = _METHODS[ability]
        if getattr(writer, method) is not getattr(Writer, method):
            yield ability, f"{writer.__name__} has {method}()"


def _has_lookup(harness: Harness) -> str | None:
    enumerator = harness.source({}).enumerator(None)
    try:
        return f"{type(enumerator).__name__} has lookup()" if isinstance(enumerator, SupportsTimeIndex) else None
    finally:
        enumerator.close()


def _has_start_at_end(harness: Harness) -> str | None:
    return "start_at_end is set" if harness.start_at_end else None


_LOOKS: Mapping[Ability, Callable[[Harness], str | None]] = {
    Ability.TIME_INDEX: _has_lookup,
    Ability.START_AT_END: _has_start_at_end,
}


def opted_out(make: HarnessFactory) -> OptedOut:
    """Return what a connector goes without.  Raises what the harness and its source raise."""
    harness = make()
    try:
        lacking = harness.abilities.opted_out
        found = dict(_has_methods(harness, [ability for ability in _METHODS if ability in lacking]))
        for ability, look in _LOOKS.items():
            if ability in lacking and (why := look(harness)) is not None:
                found[ability] = why
        stale = {ability: f"{ability.name} is opted out of, but {why}" for ability, why in found.items()}
        return OptedOut(name_of(harness), dict(lacking), stale)
    finally:
        harness.close()
