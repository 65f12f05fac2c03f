"""Estimates the memory of decoded Avro: a few bytes may mean many objects, which are bounded before they are created.

The memory of a value follows from its type, with two exceptions.  Bytes and texts take about as much as their encoding,
and the items of arrays and maps are counted.  An item of a few bytes may be a large record.  So the estimate is the
memory of an item for each *part*: a number, a length, a block of bytes, the index of a union.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

__all__ = ["CountedBytes", "TooManyPartsError", "ValueCost", "list_cost", "plain_cost", "record_cost", "union_cost"]

# The most bytes of a value in CPython and in Arrow, whose buffers double; measured.
_NULL = 16
_PLAIN = 80
_DECIMAL = 192
_LIST = 160
_RECORD = 200
_FIELD = 56
_COPIES = 3  # of bytes of a fixed size: one of Python, two of Arrow


class ValueCost(NamedTuple):
    """The memory of a value of a type.

    memory: bytes, without the contents of texts and the items of lists.
    parts: of its encoding, at least; 0: it may have no bytes.
    item_memory: bytes of the items of all lists in it, for each part of their encoding, at most.
    """

    memory: int
    parts: int
    item_memory: int = 0


def plain_cost(kind: pa.DataType) -> ValueCost:
    """Return the cost of a value of a type without nested types."""
    if pa.types.is_null(kind):
        return ValueCost(_NULL, 0)
    if pa.types.is_decimal(kind):
        return ValueCost(_DECIMAL, 1)
    if pa.types.is_fixed_size_binary(kind):
        return ValueCost(_PLAIN + _COPIES * kind.byte_width, min(kind.byte_width, 1))
    return ValueCost(_PLAIN, 1)


def record_cost(fields: Sequence[ValueCost]) -> ValueCost:
    """Return the cost of a record of these fields."""
    memory = _RECORD + sum(_FIELD + field.memory for field in fields)
    return ValueCost(memory, sum(field.parts for field in fields), _dearest(fields))


def list_cost(items: ValueCost) -> ValueCost:
    """Return the cost of a list of items; items without a cost add none."""
    part_memory = -(-items.memory // items.parts) if items.parts else 0
    return ValueCost(_LIST, 1, max(part_memory, items.item_memory))


def union_cost(branches: Sequence[ValueCost], *, is_record: bool) -> ValueCost:
    """Return the cost of a union; ``is_record``: Arrow holds it as a record with a field for each type."""
    memory = record_cost(branches).memory if is_record else max(branch.memory for branch in branches)
    return ValueCost(memory, 1 + min(branch.parts for branch in branches), _dearest(branches))


def _dearest(costs: Sequence[ValueCost]) -> int:
    return max((cost.item_memory for cost in costs), default=0)


class TooManyPartsError(Exception):
    """More parts were read than allowed."""


class CountedBytes:
    """A stream of bytes from a position on, with a limit of the parts that may be read."""

    def __init__(self, data: bytes | memoryview, position: int, most_parts: int) -> None:
        self._data = memoryview(data)
        self.position = position
        self._left = most_parts

    def read(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end; raises TooManyPartsError."""
        data = self._data[self.position : self.position + size].tobytes()
        self.position += len(data)
        if size != 1 or data < b"\x80":  # a number goes on while its bytes are not below
            self._left -= 1
            if self._left < 0:
                raise TooManyPartsError
        return data
