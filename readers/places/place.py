"""A place of files, from which they are fetched, and to which they are written as a whole, such as bad records."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from shutil import copyfileobj
from typing import IO
from uuid import uuid4

import pyarrow as pa

from tidegate.errors import ConnectorError, ObjectGoneError
from tidegate.readers.bad_record_files import BadRecordFiles
from tidegate.readers.objects.file import ObjectFile
from tidegate.readers.objects.values import SMALL_BYTES, S3Object
from tidegate.readers.s3.config import S3Address, S3ConnectionConfig, is_local, local_path, s3_address
from tidegate.readers.s3.request import ask_s3
from tidegate.readers.s3.store import ObjectStore


def check_location(location: str) -> str:
    """Return a location; raises ValueError unless it is a path, a ``file:`` URL or ``s3://bucket/prefix``."""
    address = s3_address(location)
    if not (is_local(location) if address is None else address.bucket):
        raise ValueError("expected a folder, or s3://bucket/prefix")
    return location


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, or ``s3://bucket/prefix``.  Picklable; it opens nothing by itself."""

    location: str
    connection: S3ConnectionConfig = field(default_factory=S3ConnectionConfig)

    def address(self, path: str) -> str:
        """Return the address of an object, for errors."""
        return f"{self.location.rstrip('/')}/{path}"

    def open(self, path: str, size: int) -> ObjectFile | pa.NativeFile:
        """Open an object to read it; close it, since that of a bucket may have threads.

        Raises ObjectGoneError if there is no such object of this size, ConnectorError if it cannot be read, and for
        that of a bucket, when it is read, the errors of ``ObjectStore.fetch``.
        """
        place = self._in_bucket(path)
        if place is not None:
            store, obj = ObjectStore(self.connection, place.bucket), S3Object(place.key, size, "", 0)
            return ObjectFile(size, partial(store.fetch, obj), SMALL_BYTES)
        try:
            file = pa.OSFile(str(local_path(self.location) / path))
        except FileNotFoundError:
            raise ObjectGoneError(f"{self.address(path)} was deleted") from None
        except OSError as problem:
            raise ConnectorError(f"cannot read {self.address(path)}: {problem}") from problem
        if file.size() == size:
            return file
        file.close()
        raise ObjectGoneError(f"{self.address(path)} has another size than before", overwritten=True)

    def put(self, path: str, file: IO[bytes], *, noun: str, keep: bool = True) -> None:
        """Write an object from the beginning of a file; other processes see all of it, or nothing.

        noun: what the file holds, for errors.
        keep: otherwise, only see whether a folder can be written; in a bucket the object stays.

        Raises ConnectorError or OptionError if the location cannot be written, and DeadlineError if it does not answer.
        """
        place = self._in_bucket(path)
        if place is None:
            _copy(local_path(self.location) / path, file, noun, keep=keep)
            return

        def put() -> None:
            file.seek(0)
            self.connection.client().put_object(Bucket=place.bucket, Key=place.key, Body=file)

        ask_s3(put, f"write {noun} to", str(place), self.connection.deadline_s)

    def _in_bucket(self, path: str) -> S3Address | None:
        return s3_address(self.address(path))


def _copy(target: Path, file: IO[bytes], noun: str, *, keep: bool) -> None:
    # With open(), the umask decides who may read the file.  With mkstemp(), no other user could.
    unfinished = target.parent / f".{uuid4().hex}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            file.seek(0)
            with unfinished.open("xb") as copy:
                copyfileobj(file, copy, 1 << 20)
                copy.flush()
                os.fsync(copy.fileno())
            if keep:
                unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as problem:
        raise ConnectorError(f"cannot write {noun} to {target}: {problem}") from problem


_TRIAL = "_writable"  # Spark's readers leave out files whose names begin with "_"


class BadRecordFolder(Place):
    """A folder or a bucket for bad records."""

    def files(self, name: str) -> BadRecordFiles:
        """Return the files whose names begin with ``name``."""
        return BadRecordFiles(name, lambda file, data, _: self.write(file, data))

    def write(self, name: str, data: bytes) -> None:
        """Write a file as a whole: other processes see all of it, or nothing.

        Raises ConnectorError or OptionError if the location cannot be written, and DeadlineError if it does not answer.
        """
        self.put(name, BytesIO(data), noun="bad records")

    def check(self) -> None:
        """Raise the errors of ``write`` if nothing can be written here.  Called on the driver, before a query begins.

        Makes a missing folder.  In a bucket, an empty object stays, since the role may lack the right to
        delete it.
        """
        self.put(_TRIAL, BytesIO(), noun="bad records", keep=False)
