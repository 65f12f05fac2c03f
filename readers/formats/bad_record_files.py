"""Writes bad records to files of a folder or a bucket, named after the chunk that they are from."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidegate.errors import ConnectorError
from tidegate.readers.objects.values import Chunk
from tidegate.readers.s3.address import s3_address
from tidegate.readers.s3.store import ObjectStore

__all__ = ["BadRecordFiles", "check_location"]

FILE_BYTES = 16 << 20  # as much is held in memory


def check_location(location: str) -> str:
    """Return a location; raises ValueError unless it is a path, a ``file:`` URL or ``s3://bucket/prefix``."""
    address = s3_address(location)
    scheme, separator, _ = location.partition("://")
    is_folder = location.strip() and (not separator or scheme.lower() == "file")
    if not (is_folder if address is None else address.bucket):
        raise ValueError("expected a folder, or s3://bucket/prefix")
    return location


class BadRecordFiles:
    """The bad records of one chunk.

    Lines of JSON: ``path`` (the object), ``position`` (of the record's first byte, in what the object holds
    decompressed), ``reason`` and ``record`` (Base64 of its bytes).  Their names and contents follow from
    the chunk, so that a task that is repeated writes the same again.  There is one file, or several of about 16 MiB.

    location: as check_location takes it.
    """

    def __init__(self, location: str, store: ObjectStore, chunk: Chunk) -> None:
        self._location, self._store = location.rstrip("/"), store
        self._address = store.address(chunk.key)
        identity = json.dumps([self._address, chunk.etag, chunk.size, chunk.modified_ms, chunk.start, chunk.end])
        self._name = hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._written = 0
        self._lines = bytearray()

    def add(self, position: int, reason: str, record: bytes) -> None:
        """Write a record, now or when there are more.

        Raises ConnectorError when the location cannot be written to, DeadlineError when it does not answer.
        """
        text = base64.b64encode(record).decode()
        line = {"path": self._address, "position": position, "reason": reason, "record": text}
        self._lines += json.dumps(line, ensure_ascii=False).encode() + b"\n"
        if len(self._lines) >= FILE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the records that are not written yet; raises the errors of ``add``."""
        if self._lines:
            name, data = f"{self._name}-{self._written}.json", bytes(self._lines)
            place = s3_address(f"{self._location}/{name}")
            if place is None:
                _write(_folder(self._location), name, data)
            else:
                self._store.write(place, data)
            self._written += 1
            self._lines.clear()


def _folder(location: str) -> Path:
    if location.lower().startswith("file:"):
        return Path(unquote(urlsplit(location).path))
    return Path(location).expanduser().absolute()


def _write(folder: Path, name: str, data: bytes) -> None:
    """Write a file as a whole: others see all of it or none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix=".", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(unfinished).replace(folder / name)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise ConnectorError(f"cannot write bad records to {folder}: {problem}") from problem
