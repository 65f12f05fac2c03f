"""Writes files of bad records to a folder or a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tidegate.errors import ConnectorError
from tidegate.readers.bad_record_files import BadRecordFiles
from tidegate.readers.s3.address import S3Address, local_path, s3_address
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.request import ask_s3

_TRIAL = "_writable"  # Spark's readers leave out files whose names begin with "_"


def check_location(location: str) -> str:
    """Return a location; raises ValueError unless it is a path, a ``file:`` URL or ``s3://bucket/prefix``."""
    address = s3_address(location)
    scheme, separator, _ = location.partition("://")
    is_folder = location.strip() and (not separator or scheme.lower() == "file")
    if not (is_folder if address is None else address.bucket):
        raise ValueError("expected a folder, or s3://bucket/prefix")
    return location


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
