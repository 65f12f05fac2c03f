r"""Text as Java has it: in any encoding, with lines that end as Hadoop's do, with ``\n``, ``\r\n`` or ``\r``."""

from __future__ import annotations

import codecs
import re
from typing import Any

__all__ = ["UTF_8", "check_encoding", "is_single_byte", "java_text", "unified", "utf8"]

UTF_8 = "utf-8"


def check_encoding(name: str) -> str:
    """Return Python's name of an encoding.

    Raises ValueError if it is not known, or a line feed is not one byte in it.
    """
    try:
        encoding = codecs.lookup(name).name
        if "\r\n".encode(encoding) != b"\r\n":
            raise ValueError("a line feed must be one byte in it")
    except LookupError:
        raise ValueError("expected the name of an encoding, such as UTF-8 or ISO-8859-1") from None
    return encoding


def is_single_byte(encoding: str) -> bool:
    """Tell whether each character is one byte in an encoding."""
    every = bytes(range(256))
    return len(every.decode(encoding, errors="replace")) == len(every)


def utf8(text: bytes, encoding: str) -> bytes:
    """Return a text in UTF-8; what is no character is replaced, as by Java."""
    if encoding != UTF_8:
        return text.decode(encoding, errors="replace").encode()
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return text.decode(errors="replace").encode()
    return text


def java_text(text: bytes) -> str:
    """Return UTF-8 as Java's String holds it: with one replacement character where Java puts one."""
    return text.decode(errors=_JAVA)


def _replaced(error: Any) -> tuple[str, int]:
    """Take an encoded surrogate for one wrong character, as Java does, and not for two or three, as Python does."""
    found: bytes = error.object[error.start : error.start + 3]
    surrogate = re.match(b"\xed[\xa0-\xbf][\x80-\xbf]?", found)
    return "\ufffd", error.start + surrogate.end() if surrogate else error.end


_JAVA = "tidegate-java"
codecs.register_error(_JAVA, _replaced)


def unified(text: bytes) -> bytes:
    r"""Return a text with ``\n`` for every line end."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text
