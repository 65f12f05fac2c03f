"""Skips Avro values without converting them, whatever their type.

The library's own skipping follows a type that contains itself on the stack of C, which a long value overflows, and it
counts items without bytes one by one.  This goes on where a type of Spark ends: at types that contain themselves, and
at decimals and names that Spark does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

MOST_STEPS = 100_000  # without a byte: a type that contains itself without a choice has no end
_NESTED = {"record", "error", "array", "map"}
_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}

Scoped: TypeAlias = tuple[Any, str]
"""A type, and the namespace of names in it without one."""

NamedTypes: TypeAlias = Mapping[str, Scoped]
"""The named types of a schema by their full names; each with the namespace of what is in it."""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def full_name(name: str, namespace: str | None) -> str:
    """Return a name with its namespace."""
    return f"{namespace}.{name}" if namespace and "." not in name else name


def named_types(schema: Any) -> dict[str, Scoped]:
    """Return the named types of a schema.  Raises KeyError, TypeError or AttributeError if it is no schema."""
    named: dict[str, Scoped] = {}
    left: list[Scoped] = [(schema, "")]
    while left:
        part, namespace = left.pop()
        if isinstance(part, list):
            left += [(branch, namespace) for branch in part]
        if not isinstance(part, dict):
            continue
        if part["type"] in ("record", "error", "enum", "fixed"):
            name = full_name(part["name"], part.get("namespace", namespace))
            namespace = name.rpartition(".")[0]
            named[name] = part, namespace
        left += [(part[inner], namespace) for inner in ("type", "items", "values") if inner in part]
        left += [(field["type"], namespace) for field in part.get("fields", ())]
    return named


def skip(scoped: Scoped, named: NamedTypes, stream: _Readable) -> None:
    """Read past a value.

    Raises EOFError if it does not end.  Raises ValueError, LookupError, TypeError or OverflowError if it is none.
    """
    taking = _Taking(stream)
    within: list[Iterator[Scoped]] = [iter([scoped])]
    while within:
        inner = next(within[-1], None)
        if inner is None:
            within.pop()
        elif (more := taking.begin(*inner, named)) is not None:
            within.append(more)


class _Taking:
    """Takes the bytes of a stream, and counts them."""

    def __init__(self, stream: _Readable) -> None:
        self.taken = 0
        self._stream = stream
        self._left = MOST_STEPS

    def begin(self, schema: Any, namespace: str, named: NamedTypes) -> Iterator[Scoped] | None:
        """Take what a value has itself; return the types of the values in it, in order."""
        self._left -= 1
        if self._left < 0:
            raise ValueError
        if isinstance(schema, list):
            index = self._number()
            if index < 0:
                raise LookupError
            return iter([(schema[index], namespace)])
        kind = schema if isinstance(schema, str) else schema["type"]
        if not isinstance(kind, str):
            return iter([(kind, namespace)])
        if kind in _NESTED:
            return self._nested(kind, schema, namespace)
        if not self._took_plain(kind, schema):
            name = full_name(kind, namespace)
            return iter([named[name if name in named else kind]])
        return None

    def _nested(self, kind: str, schema: Any, namespace: str) -> Iterator[Scoped]:
        if kind == "array":
            return self._items((schema["items"], namespace))
        if kind == "map":
            return self._items((schema["values"], namespace), "string")
        inside = full_name(schema["name"], schema.get("namespace", namespace)).rpartition(".")[0]
        return ((field["type"], inside) for field in schema["fields"])

    def _took_plain(self, kind: str, schema: Any) -> bool:
        """Take a value without a type in it; False: the kind is the name of a type."""
        if kind in _BYTES:
            self._take(_BYTES[kind])
        elif kind in {"int", "long", "enum"}:
            self._number()
        elif kind in {"bytes", "string"}:
            self._take(self._number())
        elif kind == "fixed":
            self._take(schema["size"])
        else:
            return False
        return True

    def _items(self, item: Scoped, *before: str) -> Iterator[Scoped]:
        while count := self._number():
            if count < 0:  # the length of the items follows
                self._take(self._number())
                continue
            for _ in range(count):
                began = self.taken
                for key in before:
                    yield key, ""
                yield item
                if self.taken == began:  # then no item has a byte
                    break

    def _number(self) -> int:
        number = shift = 0
        while True:
            (byte,) = self._take(1)
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            if shift >= 70:
                raise ValueError

    def _take(self, size: int) -> bytes:
        if size < 0:
            raise ValueError
        taken = self._stream.read(size)
        if len(taken) < size:
            raise EOFError
        if size:
            self.taken += size
            self._left = MOST_STEPS
        return taken
