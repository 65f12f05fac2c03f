"""Casts columns of texts to types as Spark's CSV reader does (Spark: UnivocityParser, CSVInferSchema).

A whole column is cast at once.  If Arrow and Spark may read a value differently, each value is cast by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.errors import OptionError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.conform import MOST_DIGITS
from tidegate.readers.arrow.text_values import LONG_FRACTION, caster_of, timestamps

Converter: TypeAlias = Callable[[pa.StringArray], tuple[pa.Array, npt.NDArray[np.bool_] | None]]
"""Casts texts; returns the values, with null for misfits, and whether each row is a misfit (None: no row is)."""

_LONG_FRACTION = re.compile(LONG_FRACTION.encode())
_INFINITE = {"Inf": float("inf"), "-Inf": float("-inf")}  # Spark: positiveInf, negativeInf
_INT64_DIGITS = 18  # any number with so many digits fits


def converter_of(name: str, kind: pa.DataType) -> Converter:
    """Return the function that casts the texts of a column to a type.

    Raises OptionError for a type that CSV cannot be read as.
    """
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        return lambda texts: (texts.cast(kind), None)
    careful = caster_of(kind)
    if careful is None:
        raise OptionError(f"the column {name!r} cannot be read from CSV as {kind}")
    if types.is_decimal(kind):
        return partial(_converted, kind, partial(_cast_decimals, kind), lambda text: careful(text.replace(",", "")))
    if types.is_timestamp(kind):
        return partial(_converted, kind, lambda texts: timestamps(texts, kind), careful)
    if types.is_floating(kind):
        return partial(_converted, kind, partial(_cast, kind, b"nN"), lambda text: _INFINITE.get(text, careful(text)))
    differing = b"xX" if types.is_integer(kind) else b"01" if types.is_boolean(kind) else b""
    return partial(_converted, kind, partial(_cast, kind, differing), careful)


def _converted(
    kind: pa.DataType, quick: Callable[[pa.StringArray], pa.Array], careful: Callable[[str], Any], texts: pa.StringArray
) -> tuple[pa.Array, npt.NDArray[np.bool_] | None]:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind), None
    try:
        return quick(texts), None
    except pa.ArrowInvalid:
        values = [None if text is None else careful(text) for text in texts.to_pylist()]
    missed = np.array([value is None for value in values]) & np.asarray(texts.is_valid())
    return pa.array(values, kind), missed if missed.any() else None


def _cast(kind: pa.DataType, differing: bytes, texts: pa.StringArray) -> pa.Array:
    """Cast a whole column; raises ArrowInvalid for texts that Arrow refuses, and for ``differing`` characters."""
    held = texts.buffers()[2].to_pybytes()
    if any(bytes([character]) in held for character in differing):
        raise pa.ArrowInvalid("Spark might read another value")
    return texts.cast(kind)


def _cast_decimals(kind: pa.DataType, texts: pa.StringArray) -> pa.Array:
    """Cast a whole column; raises ArrowInvalid as ``_cast`` does, and for texts that may crash Arrow."""
    if _LONG_FRACTION.search(texts.buffers()[2].to_pybytes()):
        raise pa.ArrowInvalid("it might crash Arrow")
    return _cast(kind, b"xX", texts)


def inferred_type(columns: Sequence[pa.StringArray]) -> pa.DataType:
    """Return the first type that all values of a column fit.

    The types are bigint, decimal without a fraction, double, date, timestamp, boolean and string, in this order.
    Dates mixed with times are strings, as in Spark.
    """
    texts = pa.chunked_array(columns, pa.string()).drop_null().combine_chunks()
    texts = texts.filter(pc.not_equal(texts, ""))
    if not len(texts):
        return pa.string()
    digits = pc.max(pc.utf8_length(texts)).as_py()
    candidates = [pa.int64()]
    if digits > _INT64_DIGITS and pc.all(pc.match_substring_regex(texts, "^[+-]?[0-9]{1,38}$")).as_py():
        longest = pc.max(pc.utf8_length(pc.utf8_ltrim(texts, "+-"))).as_py()
        candidates.append(pa.decimal128(min(longest, MOST_DIGITS), 0))
    candidates.append(pa.float64())
    are_dates = pc.match_substring_regex(texts, "^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    if pc.all(are_dates).as_py():
        candidates.append(pa.date32())
    elif not pc.any(are_dates).as_py():
        candidates.append(pa.timestamp("us", "UTC"))
    candidates.append(pa.bool_())
    return next((kind for kind in candidates if converter_of("", kind)(texts)[1] is None), pa.string())
