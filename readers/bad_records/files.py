"""Writes bad records to files in a folder or a bucket; a repeated task replaces its own files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from tidegate.errors import ConnectorError
from tidegate.readers.objects.values import WriteFile
from tidegate.readers.s3.address import S3Address, local_path, s3_address
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.request import ask_s3

FILE_BYTES = 16 << 20  # a file is held in memory until it has this size

_TRIAL = "_writable"  # Spark's readers leave out files whose names begin with "_"


def check_location(location: str) -> str:
    """Return a location; raises ValueError unless it is a path, a ``file:`` URL or ``s3://bucket/prefix``."""
    address = s3_address(location)
    scheme, separator, _ = location.partition("://")
    is_folder = location.strip() and (not separator or scheme.lower() == "file")
    if not (is_folder if address is None else address.bucket):
        raise ValueError("expected a folder, or s3://bucket/prefix")
    return location


def digest_of(identity: Any) -> str:
    """Return a digest of a JSON value, in 32 hexadecimal digits, as a part of a file's name."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


class BadRecordFiles:
    """The bad records of one range of rows, as lines of JSON.

    There is one file, or several of about 16 MiB.  The same name and the same records give the same files, so a
    repeated task replaces its own.
    """

    def __init__(self, name: str, write: WriteFile) -> None:
        self._name, self._write = name, write
        self._files = self._records = 0
        self._lines = bytearray()

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a record, and write a file if it is large enough.

        Raises ConnectorError if the location cannot be written, and DeadlineError if it does not answer.
        """
        self._lines += json.dumps(record, ensure_ascii=False).encode() + b"\n"
        self._records += 1
        if len(self._lines) >= FILE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the records that are not written yet; raises the errors of ``add``."""
        if self._lines:
            self._write(f"{self._name}-{self._files}.json", bytes(self._lines), self._records)
            self._files += 1
            self._records = 0
            self._lines.clear()


@dataclass(frozen=True, slots=True)
class BadRecordFolder:
    """A folder or a bucket for bad records.  Picklable; it opens nothing before the first write."""

    location: str
    connection: S3ConnectionConfig

    def files(self, name: str) -> BadRecordFiles:
        """Return the files whose names begin with ``name``."""
        return BadRecordFiles(name, lambda file, data, _: self.write(file, data))

    def write(self, name: str, data: bytes) -> None:
        """Write a file as a whole: other processes see all of it, or nothing.

        Raises ConnectorError or OptionError if the location cannot be written, and DeadlineError if it does not answer.
        """
        place = self._object(name)
        if place is None:
            _write(local_path(self.location), name, data)
        else:
            _put(self.connection, place, data)

    def check(self) -> None:
        """Raise the errors of ``write`` if nothing can be written here.  Called on the driver, before a query begins.

        Makes the folder if there is none.  In a bucket, an empty object stays, since the role may lack the right to
        delete it.
        """
        place = self._object(_TRIAL)
        if place is None:
            _write(local_path(self.location), _TRIAL, b"", keep=False)
        else:
            _put(self.connection, place, b"")

    def _object(self, name: str) -> S3Address | None:
        return s3_address(f"{self.location.rstrip('/')}/{name}")


def _put(connection: S3ConnectionConfig, place: S3Address, data: bytes) -> None:
    ask_s3(
        lambda: connection.client().put_object(Bucket=place.bucket, Key=place.key, Body=data),
        "write bad records to",
        str(place),
        connection.deadline_s,
    )


def _write(folder: Path, name: str, data: bytes, *, keep: bool = True) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # With open(), the umask decides who may read the file.  With mkstemp(), no other user could.
        unfinished = folder / f".{uuid4().hex}"
        try:
            with unfinished.open("xb") as file:
                file.write(data)
            if keep:
                unfinished.replace(folder / name)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as problem:
        raise ConnectorError(f"cannot write bad records to {folder}: {problem}") from problem
