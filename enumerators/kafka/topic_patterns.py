"""Regular expressions for names of topics, as far as they mean the same to Java, to RE2 and to Python.

Spark matches names with Java.  A name of a topic holds letters, digits, dots, underscores and hyphens only.
All else is refused, so that a pattern never has another meaning here.
"""

from __future__ import annotations

import re

__all__ = ["PatternError", "check_pattern"]

# Elsewhere in a class, a hyphen may become a set difference in a later Python.
_CLASS = r"\[\^?(?:-|-?(?:\w-\w|[\w.,:;/ ]|\\[dDwWsS.-])+-?)\]"
_CHARACTER = r"[\w.,:;/ -]|\\[dDwWsS]|\\[^\w\s]"
_QUANTIFIER = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??(?![*+?{])"
_PIECE = re.compile(
    rf"(?:{_CLASS}|{_CHARACTER}|\))(?:{_QUANTIFIER})?|\((?:\?(?:[:=!]|<[=!]|i:))?|[|^$]|\\[bB]", re.ASCII
)
_LOOK_AROUNDS = ("(?=", "(?!", "(?<=", "(?<!")


class PatternError(ValueError):
    """A pattern that is no pattern of Java, or holds what is not supported here."""


def check_pattern(pattern: str) -> None:
    """Raise PatternError, which names the place, if a pattern may not mean the same to Java."""
    at = len("(?i)") if pattern.startswith("(?i)") else 0
    open_groups: list[str] = []
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            raise PatternError(
                f"expected characters, classes such as [a-z] or \\d, groups, |, *, +, ? and {{2,5}} with counts up to "
                f"999, and (?i) at the beginning, as in Java; at index {at} is {pattern[at : at + 8]!r}"
            )
        if piece[0].startswith("("):
            open_groups.append(piece[0])
        closed = open_groups.pop() if piece[0].startswith(")") and open_groups else None
        if closed in _LOOK_AROUNDS and piece[0] != ")":
            # A look-around takes no characters, so languages differ in what it means to repeat it.
            raise PatternError(f"expected no quantifier after a look-around; at index {at} is {pattern[at : at + 8]!r}")
        at = piece.end()
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"it is no regular expression: {error}") from None
