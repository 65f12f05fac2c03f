"""Recognizes objects that are something else than their format and their name say, by their first bytes."""

from __future__ import annotations

import re

SIGNATURE_BYTES = 64
_FORMATS = {b"PAR1": ("Parquet", "parquet"), b"ORC": ("ORC", "orc"), b"Obj\x01": ("Avro", "avro")}
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # lines may begin with the letters of a signature
_COMPRESSIONS = {
    "gzip": re.compile(rb"\x1f\x8b\x08"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)"),
    "zip": re.compile(rb"PK\x03\x04"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "lz4": re.compile(rb"\x04\x22\x4d\x18"),
}
# The byte order mark of UTF-32 in little endian begins as that of UTF-16 does.
_ENCODINGS = {"UTF-32": (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"), "UTF-16": (b"\xff\xfe", b"\xfe\xff")}


def other_format(head: bytes) -> str:
    """Return "; it begins as Parquet does: set fileFormat to parquet" and the like by 64 bytes, or nothing."""
    for signature, (name, file_format) in _FORMATS.items():
        if head.startswith(signature) and _NO_TEXT.search(head[:SIGNATURE_BYTES]):
            return f"; it begins as {name} does: set fileFormat to {file_format}"
    for codec, beginning in _COMPRESSIONS.items():
        if beginning.match(head):
            return f"; it begins as {codec} does: only text is read compressed, and if its name ends with the codec's"
    return ""


def other_encoding(head: bytes) -> str | None:
    """Return UTF-16 or UTF-32 if a text begins with a byte order mark of it."""
    return next((name for name, marks in _ENCODINGS.items() if head.startswith(marks)), None)
