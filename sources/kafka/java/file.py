"""Properties files, which Kafka's own tools take with ``--command-config``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tidegate.errors import OptionError

# A line of java.util.Properties: the key ends at the first blank, = or : that no backslash precedes.
_LINE = re.compile(r"(?P<key>(?:\\.|[^\\\s=:])+)[ \t\f]*(?P<sign>[=:]?)[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<letter>.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(option: str, path: Path) -> dict[str, str]:
    """Read the properties in a file in UTF-8; if a key comes twice, the last value counts.

    A prefix ``kafka.`` is removed.  Raises OptionError, which never shows the file's content.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{option} is {path}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OptionError(f"{option} is {path}, which is not in UTF-8") from None
    properties = {}
    for number, line in _lines(text):
        match = _LINE.fullmatch(line)
        if match is None or not (match["sign"] or match["value"]):
            raise OptionError(
                f"{option} is {path}, whose line {number} is no property; expected key=value, such as "
                "security.protocol=SSL"
            )
        properties[_unescaped(match["key"]).removeprefix("kafka.")] = _unescaped(match["value"])
    return properties


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each logical line with the number of its first one; a backslash at the end continues it."""
    begun, first = "", 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        part = line.lstrip()
        if not begun:
            first = number
            if not part or part[0] in "#!":
                continue
        begun += part
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield first, begun
        begun = ""
    if begun:
        yield first, begun


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda escape: (
            chr(int(escape["code"], 16)) if escape["code"] else _LETTERS.get(escape["letter"], escape["letter"])
        ),
        text,
    )
