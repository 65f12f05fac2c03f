"""What stands in a checkpoint of the user's wish: texts that change with the wish, but not with Spark or tidegate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame

__all__ = ["as_written", "described_stream", "is_written_whole", "normalized", "with_columns"]

_QUOTES = "'\"`"
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|[\w.]+|[^\w\s]""")


def described_stream(rows: DataFrame, keys: Sequence[str], event_time: str | None) -> dict[str, str]:
    """Return by which columns windows are kept, by names of the parts."""
    types = (f"{key} {rows.schema[key].dataType.simpleString()}" for key in keys)
    return {"key": ", ".join(types), "event time": event_time or "none"}


def as_written(node: Any) -> str:
    """Return the text from which Spark's parser made an expression.

    Spark's own text of an expression (``sql()``) may change with Spark, and then old state would be refused.
    """
    origin = node.origin()
    if not (origin.sqlText().isDefined() and origin.startIndex().isDefined() and origin.stopIndex().isDefined()):
        return str(node.sql())
    return str(origin.sqlText().get())[slice(*_place(node))]


def is_written_whole(node: Any) -> bool:
    """Return whether ``as_written`` is all of an expression.

    Spark's parser lets a predicate such as ``a LIKE b`` or ``a IN (b)`` begin behind its first operand.
    """
    return min(_starts(node)) == next(_starts(node))


def _starts(node: Any) -> Iterator[int]:
    """Yield where an expression begins in its text, and then the parts of it."""
    yield _place(node)[0]
    children = node.children()
    for number in range(children.size()):
        yield from _starts(children.apply(number))


def with_columns(root: Any, columns: Iterable[tuple[Any, str]]) -> str:
    """Return the text from which Spark's parser made an expression, with other texts for parts of it.

    columns: parts, none of which is in another one, with their new texts.  Several nodes may be one part of the text.
    """
    places = {_place(node): text for node, text in columns}
    written = str(root.origin().sqlText().get())
    for (start, stop), text in sorted(places.items(), reverse=True):
        written = f"{written[:start]} {text} {written[stop:]}"
    return written


def _place(node: Any) -> tuple[int, int]:
    return node.origin().startIndex().get(), node.origin().stopIndex().get() + 1


def normalized(text: str, *, case_sensitive: bool = False) -> str:
    """Return an expression without the differences of case and white space that mean nothing.

    case_sensitive: as ``spark.sql.caseSensitive``: columns may differ only in case.
    """
    tokens = [token if case_sensitive or token[0] in _QUOTES else token.lower() for token in _TOKEN.findall(text)]
    spaced = (" " * (_is_word(one) and _is_word(other)) + other for one, other in pairwise(tokens))
    return "".join([*tokens[:1], *spaced])


def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] in {"_", *_QUOTES}
