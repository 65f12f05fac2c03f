"""Descriptions of windows for checkpoints: texts that change with the user's windows, not with Spark or tidegate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame

_QUOTES = "'\"`"
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|[\w.]+|[^\w\s]""")


def described_stream(rows: DataFrame, keys: Sequence[str], event_time: str | None) -> dict[str, str]:
    """Return the columns of keys and event times as a description: texts by the names of its parts."""
    types = (f"{key} {rows.schema[key].dataType.simpleString()}" for key in keys)
    return {"key": ", ".join(types), "event time": event_time or "none"}


def as_written(node: Any) -> str:
    """Return the text from which Spark's parser made an expression.

    Spark's own text of an expression (``sql()``) may change with Spark; old state would then be refused.
    """
    origin = node.origin()
    if not (origin.sqlText().isDefined() and origin.startIndex().isDefined() and origin.stopIndex().isDefined()):
        return str(node.sql())
    return str(origin.sqlText().get())[origin.startIndex().get() : origin.stopIndex().get() + 1]


def normalized(text: str, *, case_sensitive: bool = False) -> str:
    """Return an expression without differences of white space and, as in Spark's setting, case."""
    tokens = [token if case_sensitive or token[0] in _QUOTES else token.lower() for token in _TOKEN.findall(text)]
    spaced = (" " * (_is_word(one) and _is_word(other)) + other for one, other in pairwise(tokens))
    return "".join([*tokens[:1], *spaced])


def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] in {"_", *_QUOTES}
