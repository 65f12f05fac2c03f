"""The contract of a harness: the author of a connector writes how to make a source, and how to write rows for it.

    class OutboxHarness(Harness):
        def source(self, options):
            return OutboxSource.from_options({"database": self.path, **options})

        def create_split(self):
            return OutboxWriter(self.path)

The kit creates one harness for every scenario, and closes it.  The sources of one harness must not see the rows of
another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

from tidegate.connector import Source
from tidegate.errors import ContractError, OptionError


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


class Row(NamedTuple):
    """A row of the kit: its split and its number identify it.

    split: the number of its writer.
    sequence: counts the rows of that writer, from 0.
    event_time_ms: milliseconds since the epoch; None only with Ability.MISSING_TIMES.
    value: up to a few MB of text; None only with Ability.NULL_VALUES.
    """

    split: int
    sequence: int
    event_time_ms: int | None
    value: str | None

    @property
    def key(self) -> str:
        """The name of the row: store it in a column of text or bytes of its own."""
        return f"{self.split}#{self.sequence}"


class Fault(Enum):
    """A fault of the other side during reads."""

    DISCONNECT = "every connection breaks, and none is taken for a while"
    SLOW = "every answer takes at least a second"
    CORRUPT = "some answers have a flipped bit, or end early"
    CRASH = "its process is killed, and comes back with all its data"


class Writer(ABC):
    """Writes rows to one split without the connector, by the client of the other side."""

    @abstractmethod
    def append(self, rows: Sequence[Row]) -> None:
        """Add rows at the end of the split; after it, a new look at the source finds them.

        Without Ability.ROW_POSITIONS the rows of one call share a position.
        """

    def finish(self) -> None:
        """Complete the split (Ability.FINITE_SPLITS).  Called once, after all calls of ``append``."""
        raise self._cannot("finish", Ability.FINITE_SPLITS)

    def leave_hole(self) -> None:
        """Use up one or more positions without a row, such as by an aborted transaction (Ability.HOLES)."""
        raise self._cannot("leave_hole", Ability.HOLES)

    def append_bad_record(self) -> None:
        """Add a record at the end of the split that is set aside with the options ``Harness.bad_records``."""
        raise ContractError(f"{type(self).__name__} has no append_bad_record(), but the harness names bad_records")

    def trim(self, count: int) -> None:
        """Delete the first ``count`` rows of all that were ever appended (Ability.RETENTION)."""
        del count
        raise self._cannot("trim", Ability.RETENTION)

    def remove(self) -> None:
        """Delete the split with all its rows (Ability.REMOVABLE_SPLITS)."""
        raise self._cannot("remove", Ability.REMOVABLE_SPLITS)

    def _cannot(self, method: str, ability: Ability) -> ContractError:
        return ContractError(f"{type(self).__name__} has no {method}(), but {ability.name} is not opted out of")


class Harness(ABC):
    """One empty place to read from, which the kit fills.

    The kit makes it without arguments: if it needs some, pass a ``functools.partial``.
    """

    name: str = ""
    """Its name in reports; empty: the name of its class."""

    abilities: Abilities = Abilities()
    """All abilities, except those that the connector does not have."""

    key_column: str = "key"
    """The column that holds ``Row.key``, as text or as bytes in UTF-8."""

    value_column: str = "value"
    """The column that holds ``Row.value``, as text or as bytes in UTF-8."""

    event_time_column: str = "timestamp"
    """The column that holds ``Row.event_time_ms``: as a timestamp, in UTC where it has no zone, or in milliseconds."""

    start_at_end: Mapping[str, str] = {}
    """The options with which a stream begins after existing rows (Ability.START_AT_END)."""

    bad_records: Mapping[str, str] = {}
    """The options with which the source sets bad records aside (SupportsBadRecords); empty: it never does."""

    secrets: Sequence[str] = ()
    """Secret texts in the options, such as a password."""

    @abstractmethod
    def source(self, options: Mapping[str, str]) -> Source:
        """Return a source that reads all rows of this harness's writers, from the beginning.

        options: of Spark, with the names of every tidegate source; the source's errors for them pass.  Called many
            times.
        """

    @abstractmethod
    def create_split(self) -> Writer:
        """Make a new, empty split.  More than once only with Ability.MANY_SPLITS."""

    def fault(self, kind: Fault) -> AbstractContextManager[object]:
        """Cause a fault until the context ends (Ability.FAULT_...).

        The rules wait until the source gives up: let ``source`` set short deadlines.
        """
        raise ContractError(f"{name_of(self)} has no fault({kind.name}), but FAULT_{kind.name} is not opted out of")

    def close(self) -> None:  # noqa: B027 - many harnesses hold nothing
        """Release all resources.  Called once."""


def name_of(harness: Harness) -> str:
    """Return the name of a connector in reports."""
    return harness.name or type(harness).__name__


HarnessFactory: TypeAlias = Callable[[], Harness]
"""Makes a harness with a place of its own: a class, or a partial of one."""
