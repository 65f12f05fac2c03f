"""Finds abilities that are opted out of although the connector has them: this would hide failures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from tidegate.alignment.index import SupportsTimeIndex
from tidegate.conformance.abilities import Ability, OptOut
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.harness import Harness, HarnessFactory, Writer, name_of
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.lab.trial import Trial

__all__ = ["OptedOut", "opted_out"]


@dataclass(frozen=True, slots=True)
class OptedOut:
    """The abilities that a connector opts out of.

    connector: the harness's name.
    abilities: with the reason of each.
    stale: those that it has nevertheless, with a sentence that shows it.
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


def _has_methods(lab: Lab, abilities: Collection[Ability]) -> Iterator[tuple[Ability, str]]:
    # One writer for all: not every harness can make more than one.
    writer = type(lab.writer()) if abilities else Writer
    for ability in abilities:
        method = _METHODS[ability]
        if getattr(writer, method) is not getattr(Writer, method):
            yield ability, f"{writer.__name__} has {method}()"


def _has_lookup(lab: Lab) -> str | None:
    enumerator = lab.enumerator(lab.source())
    return f"{type(enumerator).__name__} has lookup()" if isinstance(enumerator, SupportsTimeIndex) else None


def _has_start_at_end(lab: Lab) -> str | None:
    return "start_at_end is set" if lab.harness.start_at_end else None


def _has_event_time_column(lab: Lab) -> str | None:
    is_set = lab.harness.event_time_column != Harness.event_time_column
    return "event_time_column is set" if is_set else None


_LOOKS: Mapping[Ability, Callable[[Lab], str | None]] = {
    Ability.TIME_INDEX: _has_lookup,
    Ability.START_AT_END: _has_start_at_end,
    Ability.EVENT_TIME_COLUMN: _has_event_time_column,
}


def opted_out(make: HarnessFactory, deadline_s: float = 60.0) -> OptedOut:
    """Return the abilities that a connector opts out of.

    Raises the errors of the harness and its source, and ConformanceError if they take longer than the deadline.
    """
    trial = Trial("opting-out", lambda: Lab(make), _found)
    if (hung := trial.hung(deadline_s)) is not None:
        raise ConformanceError(f"to see what is opted out of, the harness is asked for a split and a source: {hung}")
    if trial.error is not None:
        raise trial.error
    assert trial.result is not None  # noqa: S101 - it has ended without an error
    return trial.result


def _found(lab: Lab) -> OptedOut:
    lacking = lab.harness.abilities.opted_out
    evidence = dict(_has_methods(lab, [ability for ability in _METHODS if ability in lacking]))
    for ability, look in _LOOKS.items():
        if ability in lacking and (why := look(lab)) is not None:
            evidence[ability] = why
    stale = {ability: f"{ability.name} is opted out of, but {why}" for ability, why in evidence.items()}
    return OptedOut(name_of(lab.harness), dict(lacking), stale)
