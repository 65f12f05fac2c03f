"""The value of ``sasl.jaas.config``, read as Kafka's Java client reads it.

Kafka's ``JaasConfig`` splits it with ``java.io.StreamTokenizer``.  So a quoted text ends at its line, a backslash
escapes, a slash begins a comment, and a bare number is not a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["LoginModule", "parse_jaas"]

_FLAGS = ("required", "requisite", "sufficient", "optional")
_FIRST_OF_WORD = r"A-Za-z_$\u00a0-\uffff"
_TOKEN = re.compile(
    rf"""(?P<skipped>[\x00-\x20]+|/\*.*?(?:\*/|\Z)|//[^\r\n]*|/.?[^\r\n]*)
    |(?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]+|\.))
    |(?P<word>[{_FIRST_OF_WORD}][{_FIRST_OF_WORD}0-9.-]*)
    |(?P<quote>["'])(?P<text>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?:(?P=quote)|(?=[\r\n])|\\?\Z)
    |(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?P<octal>[0-3][0-7]{0,2}|[4-7][0-7]?)|\\(?P<letter>.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module with its options.

    name: the class, such as ``org.apache.kafka.common.security.plain.PlainLoginModule``.
    options: by their names; they hold secrets, so ``repr`` does not show them.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def kind(self) -> str:
        """The name of the class without its package, which companies change when they repack Kafka."""
        return self.name.rpartition(".")[2]


def parse_jaas(text: str) -> LoginModule:
    """Return the one login module of a ``sasl.jaas.config``.

    Raises ValueError, which says what was expected and shows no value.
    """
    tokens = list(_tokens(text))
    if not tokens:
        raise ValueError("it names no login module")
    module, position = _module(tokens)
    if position < len(tokens):
        raise ValueError("it names more than one login module")
    return module


def _module(tokens: list[tuple[str, str]]) -> tuple[LoginModule, int]:
    (kind, name), flag = tokens[0], tokens[1][1] if len(tokens) > 1 else ""
    if kind != "text" or flag.lower() not in _FLAGS:
        raise ValueError("expected the class of a login module, and after it 'required'")
    options: dict[str, str] = {}
    position = 2
    while position < len(tokens) and tokens[position] != ("sign", ";"):
        kind, key = tokens[position]
        sign, value = (*tokens[position + 1 : position + 3], ("", ""), ("", ""))[:2]
        if kind != "text" or sign != ("sign", "="):
            raise ValueError(f"expected name=value, and a semicolon at the end{_after(options)}")
        if value[0] != "text":
            hint = "; a number needs quotation marks" if value[0] == "number" else ""
            raise ValueError(f"the value of {key!r} is missing{hint}")
        options[key] = value[1]
        position += 3
    if position == len(tokens):
        raise ValueError("the semicolon at its end is missing")
    return LoginModule(name, options), position + 1


def _after(options: Mapping[str, str]) -> str:
    return f", after {list(options)[-1]!r}" if options else ""


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield each token with its kind: ``text``, ``number`` or ``sign``."""
    for match in _TOKEN.finditer(text):
        if match["word"] is not None:
            yield "text", match["word"]
        elif match["quote"] is not None:
            yield "text", _ESCAPE.sub(_unescaped, match["text"])
        elif match["number"] is not None:
            yield "number", ""
        elif match["other"] is not None:
            yield "sign", match["other"]


def _unescaped(escape: re.Match[str]) -> str:
    if escape["octal"]:
        return chr(int(escape["octal"], 8))
    return _LETTERS.get(escape["letter"], escape["letter"])
