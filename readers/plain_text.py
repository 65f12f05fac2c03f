r"""Text in UTF-8 as Java reads it, with Hadoop's line ends ``\n``, ``\r\n`` and ``\r``."""

from __future__ import annotations

import codecs
import re
from typing import Any


def utf8(text: bytes) -> bytes:
    """Return a text whose invalid bytes are replaced."""
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
