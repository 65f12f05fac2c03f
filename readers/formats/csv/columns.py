"""Maps the values of a record to columns: by a header, by the user's schema, or by position."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.readers.arrow.conform import position_of
from tidegate.readers.objects.partitions import partition_texts

_UNNAMED = re.compile("_c([0-9]{1,9})", re.IGNORECASE)


def column_name(position: int) -> str:
    """Return the name of the column at a position that has no name, as in Spark: ``_c0``, ``_c1`` and so on."""
    return f"_c{position}"


def column_position(name: str, names: Sequence[str] | None) -> int | None:
    """Return the index of a column in ``names``, by position_of.

    names: the names of all columns; None: columns are named by column_name.
    """
    if names is not None:
        return position_of(name, names)
    number = _UNNAMED.fullmatch(name)
    return None if number is None else int(number[1])


def odd_width(wanted: int, width: int) -> str:
    """Return what is wrong with a record of another number of values, as a clause after "the line"."""
    return f"does not have {wanted} values, but {width}"


def header_names(values: Sequence[str | None]) -> tuple[str, ...]:
    """Return the names in a header; an empty or repeated name gets a number (Spark: CSVUtils)."""
    often = Counter(value.lower() for value in values if value)
    names = []
    for at, value in enumerate(values):
        if not value:
            names.append(column_name(at))
        else:
            names.append(f"{value}{at}" if often[value.lower()] > 1 else value)
    return tuple(names)


@dataclass(frozen=True, slots=True)
class GivenColumns:
    """The columns of the user's schema in the order of a record's values; folders below the prefix name others."""

    names: tuple[str, ...]
    prefix: str = ""

    def of(self, key: str) -> tuple[str, ...] | None:
        """Return the columns in the records of an object; None: they are named by column_name."""
        folders = [name.lower() for name in partition_texts(key, self.prefix)]
        names = tuple(name for name in self.names if name.lower() not in folders)
        return None if all(_UNNAMED.fullmatch(name) for name in names) else names
