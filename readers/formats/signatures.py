"""Recognizes objects of another format than ``fileFormat`` by their first bytes."""

from __future__ import annotations

import re

SIGNATURE_BYTES = 64
_SIGNATURES = {b"PAR1": ("Parquet", "parquet"), b"ORC": ("ORC", "orc"), b"Obj\x01": ("Avro", "avro")}
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # lines may begin with the letters of a signature


def other_format(head: bytes) -> str:
    """Return "; it begins as Parquet does: set fileFormat to parquet" and the like by 64 bytes, or nothing."""
    for signature, (name, file_format) in _SIGNATURES.items():
        if head.startswith(signature) and _NO_TEXT.search(head[:SIGNATURE_BYTES]):
            return f"; it begins as {name} does: set fileFormat to {file_format}"
    return ""
