"""Columns in Spark's DDL, such as ``id BIGINT, at TIMESTAMP``, as Arrow's types.

Spark's own parser runs in Java, and options are also checked where no session is.
"""

from __future__ import annotations

import re
from typing import NoReturn

import pyarrow as pa

from tidegate.errors import did_you_mean
from tidegate.readers.arrow.conform import MOST_DIGITS

EXAMPLE = "id BIGINT, amount DOUBLE, at TIMESTAMP"
_TOKEN = re.compile(
    r"\s*(?:(`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_]*)|([0-9]+)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([<>(),:]))"
)
_SIMPLE = {
    **dict.fromkeys(("BOOLEAN",), pa.bool_()),
    **dict.fromkeys(("TINYINT", "BYTE"), pa.int8()),
    **dict.fromkeys(("SMALLINT", "SHORT"), pa.int16()),
    **dict.fromkeys(("INT", "INTEGER"), pa.int32()),
    **dict.fromkeys(("BIGINT", "LONG"), pa.int64()),
    **dict.fromkeys(("FLOAT", "REAL"), pa.float32()),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), pa.timestamp("us", "UTC")),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
_NAMES: dict[pa.DataType, str] = {kind: name for name, kind in reversed(_SIMPLE.items())}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_NESTED = ("ARRAY", "MAP", "STRUCT")
_TYPES = (*_SIMPLE, *_DECIMALS, *_NESTED)


def columns_of_ddl(text: str) -> pa.Schema:
    """Return the columns that a text names, with the types in which Spark passes them; all are nullable.

    The text is a list of columns, or one ``STRUCT<...>``.  ``NOT NULL`` and ``COMMENT`` change nothing, as in
    ``from_json``.

    Raises ValueError, one sentence, for a text that Spark would refuse, for two columns that differ only in case, and
    for a type other than those of ``from_json``.
    """
    parser = _Parser(text)
    kind = parser.only_struct() or parser.columns()
    parser.expect_end()
    return pa.schema(list(kind))


def ddl_of(kind: pa.DataType) -> str:
    """Return a type as Spark's DDL names it, or by Arrow's name if Spark has none."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"ARRAY<{ddl_of(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{ddl_of(kind.key_type)}, {ddl_of(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {ddl_of(field.type)}' for field in kind)}>"
    return _NAMES.get(kind, str(kind))


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else f"`{name.replace('`', '``')}`"


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                self._refuse(f"it is malformed at its character {at + 1}")
            self._tokens.append(match[0].strip())
            at = match.end()
        self._at = 0

    def only_struct(self) -> pa.StructType | None:
        """Return the columns if the text begins with a type in place of a column's name."""
        if [token.upper() for token in self._tokens[:2]] != ["STRUCT", "<"]:
            return None
        kind: pa.StructType = self._kind()
        return kind

    def columns(self) -> pa.StructType:
        """Return one column, and those that follow after commas."""
        fields: list[pa.Field] = []
        while not fields or self._skip(","):
            field = self._column()
            if field.name.lower() in {other.name.lower() for other in fields}:
                self._refuse(f"it names the column {field.name!r} twice")
            fields.append(field)
        return pa.struct(fields)

    def expect_end(self) -> None:
        if self._next():
            self._refuse(f"{self._next()!r} is not expected there")

    def _column(self) -> pa.Field:
        name = self._name()
        self._skip(":")
        kind = self._kind()
        if self._skip("NOT"):
            self._take("NULL")
        if self._skip("COMMENT") and not self._take().startswith(("'", '"')):
            self._refuse("COMMENT has no text")
        return pa.field(name, kind)

    def _kind(self) -> pa.DataType:
        name = self._take().upper()
        if name in _DECIMALS:
            return self._decimal()
        if name == "ARRAY":
            self._take("<")
            kind = pa.list_(pa.field("element", self._kind()))
        elif name == "MAP":
            self._take("<")
            key = pa.field("key", self._kind(), nullable=False)
            self._take(",")
            kind = pa.map_(key, pa.field("value", self._kind()))
        elif name == "STRUCT":
            self._take("<")
            kind = self.columns()
        elif name in _SIMPLE:
            return _SIMPLE[name]
        else:
            self._refuse(f"there is no type {name!r} that can be read{did_you_mean(name, _TYPES)}")
        self._take(">")
        return kind

    def _decimal(self) -> pa.DataType:
        digits, scale = 10, 0
        if self._skip("("):
            digits = self._number()
            if self._skip(","):
                scale = self._number()
            self._take(")")
        if not 1 <= digits <= MOST_DIGITS or scale > digits:
            self._refuse(f"a decimal has 1 to {MOST_DIGITS} digits, of which at most all are behind the point")
        return pa.decimal128(digits, scale)

    def _number(self) -> int:
        token = self._take()
        return int(token) if token.isdecimal() else self._refuse(f"{token!r} is not a number")

    def _name(self) -> str:
        token = self._take()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        return token if token.isidentifier() else self._refuse(f"{token!r} is not the name of a column")

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _skip(self, token: str) -> bool:
        """Pass a token if it comes next."""
        comes = self._next().upper() == token
        self._at += comes
        return comes

    def _take(self, expected: str = "") -> str:
        token = self._next()
        if not token or (expected and token.upper() != expected):
            after = f" after {self._tokens[self._at - 1]!r}" if self._at else ""
            self._refuse(f"{repr(expected) if expected else 'a name or a type'} is missing{after}")
        self._at += 1
        return token

    def _refuse(self, problem: str) -> NoReturn:
        raise ValueError(f"expected columns in Spark's DDL, such as {EXAMPLE!r}: {problem}")
