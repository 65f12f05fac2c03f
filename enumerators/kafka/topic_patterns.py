"""Translates Java's regular expressions for names of topics, so that a pattern never has another meaning here.

A name of a topic holds letters, digits, dots, underscores and hyphens only.  So a character class of Java, however it
is written, is a set of these characters, and becomes a list of them.  The rest of the syntax that is translated means
the same to Java, to RE2 and to Python: groups, alternatives, anchors, quantifiers, and looking around.  All else is
refused.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple, NoReturn

__all__ = ["PatternError", "translated"]

_ALL = frozenset(string.ascii_letters + string.digits + "._-")
_NEVER = "/"  # no name holds it
_MOST_REPETITIONS = 1000  # the limit of RE2
_DIGITS, _LETTERS = frozenset(string.digits), frozenset(string.ascii_letters)
_WORD, _NONE = _DIGITS | _LETTERS | {"_"}, frozenset[str]()
_ESCAPED = {"d": _DIGITS, "w": _WORD, "s": _NONE, "h": _NONE, "v": _NONE}
_CASES = {"Lower": frozenset(string.ascii_lowercase), "Upper": frozenset(string.ascii_uppercase)}
_NAMED = {
    **_CASES,
    **dict.fromkeys(("Alpha", "L"), _LETTERS),
    **dict.fromkeys(("Digit", "N"), _DIGITS),
    **dict.fromkeys(("ASCII", "Graph", "Print"), _ALL),
    **dict.fromkeys(("Blank", "Cntrl", "Space"), _NONE),
    "Alnum": _LETTERS | _DIGITS,
    "Punct": frozenset("._-"),
    "XDigit": frozenset(string.hexdigits),
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS = {"A": "^", "z": "$", "Z": "$", "b": r"\b", "B": r"\B"}
_LOOKS = ("?=", "?!", "?<=", "?<!")
_REFUSED = "expected a regular expression of Java, as far as it is translated"
_NO_EFFECT = frozenset("dms")  # flags about lines, which names do not have


class PatternError(ValueError):
    """A pattern that is not translated: it is no pattern of Java, or holds what is not supported here."""


class _Token(NamedTuple):
    char: str
    is_quoted: bool
    at: int


class _Written(NamedTuple):
    """A translated part.  Only a part that matches characters can be repeated."""

    text: str
    is_repeatable: bool = True


@lru_cache
def translated(pattern: str) -> str:
    """Return the pattern for RE2 and Python, to match whole names.  It matches names of topics only.

    Raises PatternError, which names the construct and its index.
    """
    try:
        text = _Parser(pattern).whole()
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"{_REFUSED}: {error}") from None
    return text


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._tokens = [*_unquoted(pattern)]
        self._at, self._end = 0, len(pattern)
        self._ignores_case = False
        self._names: set[str] = set()

    @property
    def _is_over(self) -> bool:
        return self._at == len(self._tokens)

    def whole(self) -> str:
        text = self._alternatives()
        if not self._is_over:
            self._refuse("a closing parenthesis without an opening one")
        return text

    def _alternatives(self) -> str:
        parts = [self._sequence()]
        while self._takes("|"):
            parts.append(self._sequence())
        return "|".join(parts)

    def _sequence(self) -> str:
        parts = []
        while not self._is_over and not self._sees("|") and not self._sees(")"):
            begin = self._at
            part = self._atom()
            parts.append(part.text + self._quantifier(part, begin))
        return "".join(parts)

    def _atom(self) -> _Written:
        begin = self._at
        token = self._next()
        if token.char == "(" and not token.is_quoted:
            return self._group(begin)
        if token.char == "\\" and not token.is_quoted:
            return self._escape(begin)
        if token.char in "^$" and not token.is_quoted:
            return _Written(token.char, is_repeatable=False)
        return _Written(_listed(self._chars(token, begin)))

    def _chars(self, token: _Token, begin: int) -> frozenset[str]:
        if not token.is_quoted and token.char == ".":
            return _ALL
        if not token.is_quoted and token.char == "[":
            return self._class()
        if not token.is_quoted and token.char in "*+?{":
            self._refuse(
                f"{token.char} with nothing before it to repeat; write \\{token.char} for the character", begin
            )
        return self._in_both_cases(token.char)

    def _quantifier(self, part: _Written, begin: int) -> str:
        at = self._at
        if self._takes("{"):
            least = self._count()
            most = (None if self._sees("}") else self._count()) if self._takes(",") else least
            if not self._takes("}") or (most is not None and most < least):
                self._refuse("a { that is no quantifier, such as {2,5}; write \\{ for the character", at)
            text = f"{{{least},{'' if most is None else most}}}"
        elif self._sees("*") or self._sees("+") or self._sees("?"):
            text = self._next().char
        else:
            return ""
        if not part.is_repeatable:
            self._refuse("a quantifier of what matches no character", begin)
        if self._sees("+"):
            self._refuse("a possessive quantifier; leave out the +")
        self._takes("?")  # whether the shortest match comes first does not matter for whole names
        if any(map(self._sees, "*+?{")):
            self._refuse("a quantifier of a quantifier; write a group (?:...) around the first one")
        return text

    def _count(self) -> int:
        at, digits = self._at, ""
        while not self._is_over and self._sees_one_of(string.digits):
            digits += self._next().char
        if not digits or len(digits) > 4 or int(digits) > _MOST_REPETITIONS:
            self._refuse(f"a {{ without a number up to {_MOST_REPETITIONS}; write \\{{ for the character", at)
        return int(digits)

    def _group(self, begin: int) -> _Written:
        ignored_case, look, opening = self._ignores_case, "", "(?:"
        if self._takes("?"):
            if self._takes("<") and not self._sees("=") and not self._sees("!"):
                self._name(begin)
            elif (look := self._look()) or self._takes(":"):
                opening = f"({look}" if look else opening
            elif self._flags(begin):
                return _Written("", is_repeatable=False)
        text = self._alternatives()
        if not self._takes(")"):
            self._refuse("a group that is not closed", begin)
        self._ignores_case = ignored_case
        return _Written(f"{opening}{text})", is_repeatable=not look)

    def _look(self) -> str:
        behind = "<" if self._tokens[self._at - 1].char == "<" else ""
        return f"?{behind}{self._next().char}" if self._sees("=") or self._sees("!") else ""

    def _name(self, begin: int) -> None:
        name = ""
        while self._sees_one_of(string.ascii_letters + string.digits):
            name += self._next().char
        if not self._takes(">") or not name[:1].isalpha() or name in self._names:
            self._refuse("the name of a group, which Java refuses", begin)
        self._names.add(name)

    def _flags(self, begin: int) -> bool:
        """Read the flags of a group, and return whether they are for the rest of the group around it."""
        is_set = True
        while not self._takes(":"):
            if self._takes(")"):
                return True
            if is_set and self._takes("-"):
                is_set = False
            elif self._takes("i"):
                self._ignores_case = is_set
            elif self._sees_one_of("".join(_NO_EFFECT)):
                self._next()
            else:
                self._refuse(
                    "a group that is not (...), (?:...), (?<name>...), a look around, or flags of i, d, m, s", begin
                )
        return False

    def _escape(self, begin: int) -> _Written:
        if self._sees_one_of("".join(_ANCHORS)):
            return _Written(_ANCHORS[self._next().char], is_repeatable=False)
        return _Written(_listed(self._escaped(begin)))

    def _escaped(self, begin: int) -> frozenset[str]:
        """Read what follows a backslash, in a class or outside."""
        known = self._predefined(begin)
        return self._in_both_cases(self._escaped_char(begin)) if known is None else known

    def _predefined(self, begin: int) -> frozenset[str] | None:
        """Read the set of characters that an escape names; None: it names one character."""
        char = self._next_or("a backslash at the end", begin).char
        if char.lower() in _ESCAPED:
            return _ESCAPED[char] if char.islower() else _ALL - _ESCAPED[char.lower()]
        if char.lower() != "p":
            self._at -= 1
            return None
        name = self._next_or("a backslash at the end", begin).char
        if name == "{":
            name = ""
            while not self._takes("}"):
                name += self._next_or("a property that is not closed", begin).char
        if name not in _NAMED:
            self._refuse(f"the property {name!r}; the properties {', '.join(_NAMED)} are supported", begin)
        if self._ignores_case and name in _CASES:
            self._refuse(f"the property {name!r} while case is ignored", begin)
        return _NAMED[name] if char == "p" else _ALL - _NAMED[name]

    def _escaped_char(self, begin: int) -> str:
        char = self._next().char
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in "xu":
            digits = "".join(
                self._next_or("a code that is not complete", begin).char for _ in range(2 if char == "x" else 4)
            )
            if not set(digits) <= set(string.hexdigits):
                self._refuse("a code that is not of hexadecimal digits", begin)
            return chr(int(digits, 16))
        if char.isascii() and char.isalnum():
            self._refuse(f"\\{char}, such as a reference to a group", begin)
        return char

    def _class(self) -> frozenset[str]:
        """Read a class after its opening bracket."""
        begin = self._at - 1
        is_negated = self._takes("^")
        chars, is_empty = _NONE, True
        while is_empty or not self._takes("]"):
            if self._takes("["):
                chars |= self._class()
            elif self._sees("&") and self._sees("&", 1):
                chars &= self._right_side(begin, is_empty=is_empty)
            else:
                chars |= self._range(begin)
            is_empty = False
        return _ALL - chars if is_negated else chars

    def _right_side(self, begin: int, *, is_empty: bool) -> frozenset[str]:
        """Read the right side of &&, which ends the class.  The meaning of others depends on the version of Java."""
        at = self._at
        self._at += 2
        if is_empty or not self._takes("["):
            self._refuse("&& that is not followed by a class in brackets, such as [a-z&&[^b]]", at)
        right = self._class()
        if not self._sees("]"):
            self._refuse("more after the class at the right of &&; write a class around it", begin)
        return right

    def _range(self, begin: int) -> frozenset[str]:
        """Read one character of a class, or a range, or a set that an escape names."""
        at = self._at
        first = self._class_char(begin)
        if isinstance(first, frozenset):
            return first
        if not self._sees("-") or self._sees("]", 1) or self._sees("[", 1):
            return self._in_both_cases(first)
        self._next()
        last = _NONE if self._sees("&") else self._class_char(begin)
        if isinstance(last, frozenset) or last < first:
            self._refuse("a range without an end, or with an end before its beginning", at)
        return self._filtered(lambda char: first <= char <= last)

    def _class_char(self, begin: int) -> str | frozenset[str]:
        at = self._at
        token = self._next_or("a class that is not closed", begin)
        if token.is_quoted or token.char != "\\":
            return token.char
        known = self._predefined(at)
        return self._escaped_char(at) if known is None else known

    def _in_both_cases(self, char: str) -> frozenset[str]:
        return self._filtered(partial(str.__eq__, char))

    def _filtered(self, matches: Callable[[str], bool]) -> frozenset[str]:
        """Return the characters that match, in the other case, too, if case is ignored."""
        if not self._ignores_case:
            return frozenset(filter(matches, _ALL))
        return frozenset(char for char in _ALL if matches(char) or matches(char.upper()) or matches(char.lower()))

    def _sees(self, char: str, ahead: int = 0) -> bool:
        tokens = self._tokens[self._at + ahead : self._at + ahead + 1]
        return bool(tokens) and tokens[0].char == char and not tokens[0].is_quoted

    def _sees_one_of(self, chars: str) -> bool:
        return any(map(self._sees, chars))

    def _takes(self, char: str) -> bool:
        sees = self._sees(char)
        self._at += sees
        return sees

    def _next(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _next_or(self, otherwise: str, begin: int) -> _Token:
        if self._is_over:
            self._refuse(otherwise, begin)
        return self._next()

    def _refuse(self, construct: str, at: int | None = None) -> NoReturn:
        at = self._at if at is None else at
        index = self._tokens[at].at if at < len(self._tokens) else self._end
        raise PatternError(f"{_REFUSED}: at index {index} is {construct}")


def _unquoted(pattern: str) -> Iterator[_Token]:
    r"""Yield the characters of a pattern; those between \Q and \E are quoted."""
    at, is_quoted = 0, False
    while at < len(pattern):
        pair = pattern[at : at + 2]
        if pair == (r"\E" if is_quoted else r"\Q"):
            is_quoted, at = not is_quoted, at + 2
            continue
        # The character after a backslash begins no quotation.
        count = 2 if pair[0] == "\\" and not is_quoted else 1
        yield from (_Token(char, is_quoted, at + n) for n, char in enumerate(pair[:count]))
        at += count


def _listed(chars: frozenset[str]) -> str:
    """Return a pattern that matches one of the characters."""
    if chars == _ALL:
        return "."
    if len(chars) > 1:
        return f"[{''.join(map(re.escape, sorted(chars)))}]"
    return re.escape(min(chars, default=_NEVER))
