r"""Text as Java reads it, in any encoding, with Hadoop's line ends ``\n``, ``\r\n`` and ``\r``."""

from __future__ import annotations

import codecs
import re
from typing import Any

__all__ = ["UTF_8", "check_encoding", "is_single_byte", "java_text", "unified", "utf8"]

UTF_8 = "utf-8"


def check_encoding(name: str) -> str:
    """Return Python's name of an encoding.

    Raises ValueError for an unknown encoding, and for one with a line feed of several bytes.
    """
    try:
        encoding = codecs.lookup(name).name
        if "\r\n".encode(encoding) != b"\r\n":
            raise ValueError("a line feed must be one byte in it")
    except LookupError:
        raise ValueError("expected the name of an encoding, such as UTF-8 or ISO-8859-1") from None
    return encoding


def is_single_byte(encoding: str) -> bool:
    """Return whether each character is one byte in an encoding."""
    every = bytes(range(256))
    return len(every.decode(encoding, errors="replace")) == len(every)


def utf8(text: bytes, encoding: str) -> bytes:
    """Return a text in UTF-8; invalid bytes are replaced."""
    if encoding != UTF_8:
        return text.decode(encoding, errors="replace").encode()
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return text.decode(errors="replace").encode()
    return text


def java_text(text: bytes) -> str:
    """Return UTF-8 as Java's String holds it, with Java's replacement characters."""
    return text.decode(errors=_JAVA)


def _replaced(error: Any) -> tuple[str, int]:
    """Replace an encoded surrogate by one character, as Java does; Python uses two or three."""
    encoded: bytes = error.object[error.start : error.start + 3]
    surrogate = re.match(b"\xed[\xa0-\xbf][\x80-\xbf]?", encoded)
    return "\ufffd", error.start + surrogate.end() if surrogate else error.end


_JAVA = "tidegate-java"
codecs.register_error(_JAVA, _replaced)


def unified(text: bytes) -> bytes:
    r"""Return a text with ``\n`` for every line end."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text
