"""Addresses of objects and of folders in buckets, as ``path`` and ``stateLocation`` take them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_SCHEMES = {"s3", "s3a", "s3n"}  # Hadoop's s3a and s3n mean the same as s3


class S3Address(NamedTuple):
    """A place in S3, ``s3://bucket/key``: an object, or a folder's prefix, without a leading ``/``."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def folder(self) -> S3Address:
        """The same folder without a final ``/``."""
        return self._replace(key=self.key.rstrip("/"))

    def within(self, key: str) -> S3Address:
        """Return the place of a key in a folder without a final ``/``."""
        return self._replace(key=f"{self.key}/{key}" if self.key else key)


def s3_address(text: str) -> S3Address | None:
    """Parse an address; return None for a text that is not one, such as a path or a URL."""
    # A key may hold a ``?``, which would begin a query in a URL.
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in _SCHEMES:
        return None
    bucket, _, key = rest.partition("/")
    return S3Address(bucket, key.lstrip("/"))


def local_path(text: str) -> Path:
    """Return the folder of a path or of a ``file:`` URL."""
    if text.lower().startswith("file:"):
        return Path(unquote(urlsplit(text).path))
    return Path(text).expanduser().absolute()
