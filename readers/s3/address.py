"""Addresses of objects and of folders in buckets, as ``path`` and ``stateLocation`` take them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["S3Address", "s3_address"]

_SCHEMES = {"s3", "s3a", "s3n"}  # the latter two are Hadoop's, and mean the same


class S3Address(NamedTuple):
    """A place in S3; its text is ``s3://bucket/key``.

    bucket: empty where the address names none.
    key: without a leading ``/``; of an object, or the prefix of the keys in a folder.
    """

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


def s3_address(text: str) -> S3Address | None:
    """Parse an address; None: it is no address of S3, but perhaps a path or a URL."""
    # A key may hold a ``?``, which would begin a query in a URL.
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in _SCHEMES:
        return None
    bucket, _, key = rest.partition("/")
    return S3Address(bucket, key.lstrip("/"))
