"""A folder that outlives the query, on a disk or in a bucket, for a ledger and its lease.

A file exists as a whole or not at all.  Its *version* changes with its content.  A file can be created or replaced on a
condition about its version, which makes a lease possible.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from tidegate.errors import ConnectorError, OptionError, TidegateError
from tidegate.readers.retry import Deadline, TransientError
from tidegate.readers.s3.address import s3_address
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.errors import s3_error

__all__ = ["FileInfo", "LedgerFolder", "Stored", "open_folder"]

PROBE = ".conditional-writes"
NO_ETAG = '"0"'  # of no object

_Answer = TypeVar("_Answer")


class Stored(NamedTuple):
    """A file that was read.

    version: for ``replace``; another content has another one.
    """

    data: bytes
    version: str


class FileInfo(NamedTuple):
    """A file in the listing of a folder.

    written_s: when, in seconds since the epoch.
    """

    bytes: int
    written_s: float


class LedgerFolder(ABC):
    """A folder of files; names hold no ``/`` and do not begin with a dot.

    address: its name in errors.

    All methods raise ConnectorError if the folder cannot be reached or used, DeadlineError if it does not answer in
    time, and OptionError if its bucket does not exist.  Thread-safe.
    """

    address: str

    @abstractmethod
    def within(self, name: str) -> LedgerFolder:
        """Return a folder inside this one, which is not among its files."""

    @abstractmethod
    def read(self, name: str) -> Stored | None:
        """Return a file; None: there is none."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> str | None:
        """Write a new file, and return its version; None: it exists already."""

    @abstractmethod
    def replace(self, name: str, data: bytes, version: str) -> str | None:
        """Write a file in place of one version, and return the new one; None: it has another version, or is gone."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if there is one."""

    @abstractmethod
    def files(self) -> dict[str, FileInfo]:
        """Return the files, by name."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Return the names of the folders inside this one."""

    @abstractmethod
    def remove(self) -> None:
        """Delete the folder with its content, if it exists."""

    @abstractmethod
    def keeps_conditions(self) -> bool:
        """Tell whether ``create`` and ``replace`` always let only one of several writers win.

        The first call asks the endpoint.
        """


def open_folder(
    location: str, config: S3ConnectionConfig, *, option: str = "stateLocation", noun: str = "state location"
) -> LedgerFolder:
    """Return the folder of a path, of a ``file:`` URL or of ``s3://bucket/prefix``; it need not exist yet.

    option, noun: what the location is for errors: the name of its option, and a noun.

    Raises OptionError for any other location.
    """
    address = s3_address(location)
    if address is not None:
        if not address.bucket:
            raise OptionError(f"{option} is {location!r}, which names no bucket")
        return _BucketFolder(config, address.bucket, address.key.rstrip("/"), noun)
    if location.lower().startswith("file:"):
        return _LocalFolder(Path(unquote(urlsplit(location).path)), noun)
    if "://" in location or not location.strip():
        raise OptionError(f"{option} is {location!r}; it has to be a path, or s3://bucket/prefix")
    return _LocalFolder(Path(location).expanduser().absolute(), noun)


class _LocalFolder(LedgerFolder):
    """A folder on a disk, for this user alone; created by the first write."""

    def __init__(self, path: Path, noun: str) -> None:
        self._path, self._noun = path, noun
        self.address = str(path)

    def within(self, name: str) -> LedgerFolder:
        return _LocalFolder(self._path / name, self._noun)

    def read(self, name: str) -> Stored | None:
        with self._mapped_errors("read"):
            try:
                data = (self._path / name).read_bytes()
            except FileNotFoundError:
                return None
            return Stored(data, _digest(data))

    def create(self, name: str, data: bytes) -> str | None:
        with self._mapped_errors("write to"), self._written(data) as partial:
            try:
                os.link(partial, self._path / name)
            except FileExistsError:
                return None
            self._make_durable()
            return _digest(data)

    def replace(self, name: str, data: bytes, version: str) -> str | None:
        with self._mapped_errors("write to"), self._written(data) as partial, self._locked():
            stored = self.read(name)
            if stored is None or stored.version != version:
                return None
            partial.replace(self._path / name)
            self._make_durable()
            return _digest(data)

    def delete(self, name: str) -> None:
        with self._mapped_errors("write to"):
            (self._path / name).unlink(missing_ok=True)

    def files(self) -> dict[str, FileInfo]:
        files = {}
        with self._mapped_errors("read"):
            for entry in self._entries():
                if entry.is_file():
                    with suppress(FileNotFoundError):
                        status = entry.stat()
                        files[entry.name] = FileInfo(status.st_size, status.st_mtime)
        return files

    def folders(self) -> list[str]:
        return sorted(entry.name for entry in self._entries() if entry.is_dir(follow_symlinks=False))

    def remove(self) -> None:
        with self._mapped_errors("write to"), suppress(FileNotFoundError):
            shutil.rmtree(self._path)

    def keeps_conditions(self) -> bool:
        return True

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        with self._mapped_errors("read"), suppress(FileNotFoundError), os.scandir(self._path) as entries:
            yield from (entry for entry in entries if not entry.name.startswith("."))

    @contextlib.contextmanager
    def _written(self, data: bytes) -> Iterator[Path]:
        """Lend a durable file with the data, under a hidden name."""
        _make_private(self._path)
        handle, partial = tempfile.mkstemp(prefix=".", dir=self._path)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield Path(partial)
        finally:
            Path(partial).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock out other writers, also of this process; the lock of a killed process is free."""
        handle = os.open(self._path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _make_durable(self) -> None:
        handle = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _mapped_errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise ConnectorError(f"cannot {operation} the {self._noun} {self.address}: {problem}") from problem


class _BucketFolder(LedgerFolder):
    """A prefix of a bucket.  Without conditional writes, the version is read first, and then the file written."""

    def __init__(
        self, config: S3ConnectionConfig, bucket: str, prefix: str, noun: str, parent: LedgerFolder | None = None
    ) -> None:
        self._noun, self._parent = noun, parent
        self._config = config
        self._bucket = bucket
        self._prefix = prefix
        self.address = f"s3://{bucket}/{prefix}"

    def within(self, name: str) -> LedgerFolder:
        return _BucketFolder(self._config, self._bucket, self._key(name), self._noun, self)

    def read(self, name: str) -> Stored | None:
        def get() -> Stored:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
            with closing(answer["Body"]) as body:
                return Stored(body.read(), answer.get("ETag", ""))

        return self._ask("read", get, missing={"NoSuchKey", "404"})

    def create(self, name: str, data: bytes) -> str | None:
        if self.keeps_conditions():
            return self._put_if(name, data, IfNoneMatch="*")
        return self._put(name, data) if self.read(name) is None else None

    def replace(self, name: str, data: bytes, version: str) -> str | None:
        if self.keeps_conditions():
            return self._put_if(name, data, IfMatch=version)
        stored = self.read(name)
        return self._put(name, data) if stored is not None and stored.version == version else None

    def delete(self, name: str) -> None:
        self._ask("write to", lambda: self._client.delete_object(Bucket=self._bucket, Key=self._key(name)))

    def files(self) -> dict[str, FileInfo]:
        files = {}
        for answer in self._listed(Delimiter="/"):
            for entry in answer.get("Contents", ()):
                name = self._name(entry["Key"])
                if name and not name.startswith("."):
                    files[name] = FileInfo(entry["Size"], entry["LastModified"].timestamp())
        return files

    def folders(self) -> list[str]:
        answers = self._listed(Delimiter="/")
        return [self._name(entry["Prefix"])[:-1] for answer in answers for entry in answer.get("CommonPrefixes", ())]

    def remove(self) -> None:
        for answer in self._listed():
            for entry in answer.get("Contents", ()):
                self.delete(self._name(entry["Key"]))

    def keeps_conditions(self) -> bool:
        return self._keeps_conditions if self._parent is None else self._parent.keeps_conditions()

    @functools.cached_property
    def _keeps_conditions(self) -> bool:
        # Some endpoints refuse the conditions, and some ignore them.
        try:
            created = self._put_if(PROBE, b"", IfNoneMatch="*")
            kept = created is None or self._put_if(PROBE, b"", IfNoneMatch="*") is None
            return kept and self._put_if(PROBE, b"", IfMatch=NO_ETAG) is None
        except _UnknownRequestError:
            return False

    @property
    def _client(self) -> Any:
        return self._config.client()

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _name(self, key: str) -> str:
        return key.removeprefix(self._key(""))

    def _listed(self, **request: str) -> Iterator[Any]:
        """Yield the answers to a listing of the folder."""
        request |= {"Bucket": self._bucket, "Prefix": self._key("")}
        while True:
            answer: Any = self._ask("read", functools.partial(self._client.list_objects_v2, **request))
            yield answer
            if not answer.get("IsTruncated"):
                return
            request["ContinuationToken"] = answer["NextContinuationToken"]

    def _put(self, name: str, data: bytes) -> str:
        version = self._put_if(name, data)
        assert version is not None, "there was no condition"  # noqa: S101 - for mypy
        return version

    def _put_if(self, name: str, data: bytes, **condition: str) -> str | None:
        def put() -> str:
            answer = self._client.put_object(Bucket=self._bucket, Key=self._key(name), Body=data, **condition)
            return str(answer.get("ETag", ""))

        return self._ask(
            "write to", put, missing={"PreconditionFailed", "412", "NoSuchKey", "404"} if condition else set()
        )

    def _ask(self, operation: str, request: Callable[[], _Answer], missing: Collection[str] = ()) -> _Answer | None:
        """Return the answer to a request, repeated until the deadline; None: it is one of these errors."""
        from botocore.exceptions import BotoCoreError, ClientError

        deadline = Deadline(f"{operation} the {self._noun} {self.address}", self._config.patience_s)
        while True:
            try:
                return request()
            except ClientError as problem:
                code = problem.response.get("Error", {}).get("Code", "")
                if code in missing:
                    return None
                if code == "NotImplemented":
                    raise _UnknownRequestError(f"{self.address} does not know the request") from problem
                # Two conditional writes at the same time; one of them must be repeated.
                error = TransientError(code) if code == "ConditionalRequestConflict" else self._error(problem)
            except (BotoCoreError, OSError) as problem:
                error = self._error(problem)
            if not isinstance(error, TransientError):
                raise error
            deadline.pause(error)

    def _error(self, problem: Exception) -> TidegateError:
        error = s3_error(problem, self.address)
        error.__cause__ = problem
        return error


def _make_private(folder: Path) -> None:
    """Make a folder, and its missing parents, for this user alone."""
    if not folder.exists():
        _make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _UnknownRequestError(ConnectorError):
    """The endpoint does not know a request."""
