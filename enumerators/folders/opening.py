"""Opens the folder that a location names; one in a bucket is a prefix."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import Any, TypeVar

from typing_extensions import override

from tidegate.enumerators.folders.folder import FileInfo, Folder, LocalFolder, Stored
from tidegate.errors import ConnectorError, OptionError
from tidegate.readers.s3.config import S3Address, S3ConnectionConfig, is_local, local_path, s3_address
from tidegate.readers.s3.listing import Page, PageRequest, list_pages
from tidegate.readers.s3.request import ask_s3

_Answer = TypeVar("_Answer")


class BucketFolder(Folder):
    """A prefix of a bucket whose endpoint has conditional writes."""

    def __init__(self, config: S3ConnectionConfig, place: S3Address, noun: str) -> None:
        self._config, self._place, self.noun = config, place, noun
        self.address = str(place)

    @override
    def within(self, name: str) -> Folder:
        return BucketFolder(self._config, self._place.within(name), self.noun)

    @override
    def read(self, name: str) -> Stored | None:
        def get() -> Stored:
            answer = self._client.get_object(Bucket=self._place.bucket, Key=self._key(name))
            with closing(answer["Body"]) as body:
                return Stored(body.read(), answer.get("ETag", ""))

        return self._ask("read", get, missing={"NoSuchKey", "404"})

    @override
    def create(self, name: str, data: bytes) -> str | None:
        return self._put(name, data, IfNoneMatch="*")

    @override
    def replace(self, name: str, data: bytes, version: str) -> str | None:
        return self._put(name, data, IfMatch=version)

    @override
    def write(self, name: str, data: bytes) -> None:
        self._put(name, data)

    @override
    def delete(self, name: str) -> None:
        self._ask("write to", lambda: self._client.delete_object(Bucket=self._place.bucket, Key=self._key(name)))

    @override
    def files(self) -> dict[str, FileInfo]:
        files = {}
        for page in self._pages():
            for obj, _ in page.listed:
                name = self._name(obj.key)
                if name and not name.startswith("."):
                    files[name] = FileInfo(obj.size, obj.modified_ms / 1000)
        return files

    @override
    def folders(self) -> list[str]:
        return sorted({self._name(folder)[:-1] for page in self._pages() for folder in page.folders})

    @property
    def _client(self) -> Any:
        return self._config.client()

    @property
    def _target(self) -> str:
        return f"the {self.noun} {self.address}"

    def _key(self, name: str) -> str:
        return self._place.within(name).key

    def _name(self, key: str) -> str:
        return key.removeprefix(self._key(""))

    def _pages(self) -> Iterator[Page]:
        request = PageRequest(self._place.bucket, self._key(""), is_shallow=True)
        return list_pages(self._config, request, "read", self._target)

    def _put(self, name: str, data: bytes, **condition: str) -> str | None:
        def put() -> str:
            answer = self._client.put_object(Bucket=self._place.bucket, Key=self._key(name), Body=data, **condition)
            return str(answer.get("ETag", ""))

        return self._ask(
            "write to", put, missing={"PreconditionFailed", "412", "NoSuchKey", "404"} if condition else set()
        )

    def _ask(self, operation: str, request: Callable[[], _Answer], missing: Collection[str] = ()) -> _Answer | None:
        """Return the answer to a request, repeated until the deadline; None: the answer is one of the given errors."""
        from botocore.exceptions import ClientError

        def ask() -> _Answer | None:
            try:
                return request()
            except ClientError as problem:
                code = problem.response.get("Error", {}).get("Code", "")
                if code in missing:
                    return None
                if code == "NotImplemented":
                    raise ConnectorError(f"{self._target} needs an endpoint with conditional writes") from problem
                raise

        return ask_s3(ask, operation, self._target, self._config.deadline_s)


def open_folder(
    location: str, config: S3ConnectionConfig, *, option: str = "stateLocation", noun: str = "state location"
) -> Folder:
    """Return the folder of a path, of a ``file:`` URL or of ``s3://bucket/prefix``; it need not exist yet.

    option, noun: for errors: the name of the location's option, and a noun for the location.

    Raises OptionError for any other location.
    """
    address = s3_address(location)
    if address is not None:
        if not address.bucket:
            raise OptionError(f"{option} is {location!r}, which names no bucket")
        return BucketFolder(config, address.folder, noun)
    if not is_local(location):
        raise OptionError(f"{option} is {location!r}; it must be a path, or s3://bucket/prefix")
    return LocalFolder(local_path(location), noun)
