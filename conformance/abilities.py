"""The abilities of a connector: all, unless its harness opts out with a reason (Trino: TestingConnectorBehavior)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidegate.errors import OptionError


class Ability(Enum):
    """An ability that rules need, and that a connector may lack."""

    MANY_SPLITS = "there can be more than one split"
    NEW_SPLITS = "a query finds splits that are created while it runs"
    GROWING_SPLITS = "rows that are appended later come in the same split"
    FINITE_SPLITS = "a split can be complete: the writer has finish()"
    REMOVABLE_SPLITS = "a split can be deleted: the writer has remove()"
    RETENTION = "old rows can be deleted: the writer has trim()"
    HOLES = "a position can be without a row: the writer has leave_hole()"
    ROW_POSITIONS = "every row has a position of its own"
    COUNTED_POSITIONS = "positions count: except for holes, they are consecutive"
    TIME_INDEX = "the enumerator has lookup()"
    DISORDER = "rows of a split can be out of event-time order"
    MISSING_TIMES = "a row can be without event time"
    NEGATIVE_TIMES = "a row can have an event time before 1970"
    NULL_VALUES = "a row's value can be null"
    EVENT_TIME_COLUMN = "rows have their event time in a column: event_time_column names it"
    START_AT_END = "a stream can begin after existing rows: start_at_end is set"
    BATCH = "a batch query can read it"
    FAULT_DISCONNECT = "the harness has fault(DISCONNECT)"
    FAULT_SLOW = "the harness has fault(SLOW)"
    FAULT_CORRUPT = "the harness has fault(CORRUPT)"
    FAULT_CRASH = "the harness has fault(CRASH)"


FAULTS = frozenset({Ability.FAULT_DISCONNECT, Ability.FAULT_SLOW, Ability.FAULT_CORRUPT, Ability.FAULT_CRASH})
"""All faults of the other side; a file, for example, has no connection that could break."""

_IMPLIES: Mapping[Ability, frozenset[Ability]] = {
    Ability.NEW_SPLITS: frozenset({Ability.MANY_SPLITS}),
    Ability.REMOVABLE_SPLITS: frozenset({Ability.MANY_SPLITS}),
    Ability.HOLES: frozenset({Ability.ROW_POSITIONS}),
}


@dataclass(frozen=True, slots=True)
class Abilities:
    """All abilities except those that are opted out of, each with its reason.  ``cannot`` returns a new one."""

    opted_out: Mapping[Ability, str] = field(default_factory=dict)

    def cannot(self, ability: Ability | Collection[Ability], reason: str) -> Abilities:
        """Opt out of an ability, or several such as FAULTS, that the connector does not have."""
        lacking = [ability] if isinstance(ability, Ability) else sorted(ability, key=lambda lacked: lacked.name)
        for lacked in lacking:
            if not reason.strip():
                raise OptionError(f"{lacked.name} is opted out of without a reason")
            if lacked in self.opted_out:
                raise OptionError(f"{lacked.name} is opted out of twice")
        return Abilities({**self.opted_out, **dict.fromkeys(lacking, reason)})

    def __contains__(self, ability: Ability) -> bool:
        return self.lacking(ability) is None

    def lacking(self, ability: Ability) -> str | None:
        """Return why an ability is missing."""
        if ability in self.opted_out:
            return self.opted_out[ability]
        for implied in sorted(_IMPLIES.get(ability, ()), key=lambda ability_needed: ability_needed.name):
            why = self.lacking(implied)
            if why is not None:
                return f"it needs {implied.name} ({why})"
        return None
