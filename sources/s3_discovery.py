"""The options that say which objects are found, and what is remembered of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, Field, model_validator
from typing_extensions import Self

from tidegate.enumerators.listing_rules import ListingRules
from tidegate.sources.options import Duration

__all__ = ["S3DiscoveryOptions"]


def _path(value: Any) -> Any:
    found = urlsplit(str(value))
    if found.scheme not in {"s3", "s3a", "s3n"} or not found.netloc:
        raise ValueError("expected a path such as s3://bucket/prefix")
    return f"s3://{found.netloc}/{str(value).partition(found.netloc)[2].lstrip('/')}"


def _time(value: Any) -> Any:
    """Read a time as Spark does: ISO 8601, in UTC where it names no zone."""
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("expected a time such as 2026-11-21T12:00:00") from None


Path: TypeAlias = Annotated[str, BeforeValidator(_path)]
Time: TypeAlias = Annotated[datetime, BeforeValidator(_time)]


class S3DiscoveryOptions(BaseModel):
    """Which objects are read, and where it is noted which were found.

    path: ``s3://bucket/prefix``: all objects below it.
    state_location: a folder, or ``s3://bucket/prefix``, for what was discovered; a stream needs one
        of its own, and keeps it as long as its checkpoint.
    path_glob_filter: which names, such as ``*.parquet``.
    recursive_file_lookup: look into all folders, not only into those of partitions (``key=value``).
    modified_after, modified_before: leave out objects by LastModified; exclusive.
    include_existing_files: read what is there when the query begins.
    allow_overwrites: read an object again that was overwritten.
    max_file_age: how much older than the newest one an object may be and still be found; not when
        the query begins.
    """

    path: Path
    state_location: str | None = None
    path_glob_filter: str | None = None
    recursive_file_lookup: bool = False
    modified_after: Time | None = None
    modified_before: Time | None = None
    include_existing_files: bool = True
    allow_overwrites: bool = False
    max_file_age: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(days=7)

    @model_validator(mode="after")
    def _consistent_places(self) -> Self:
        if self.state_location is not None and _is_listed(self.state_location, self.path):
            raise ValueError(
                f"stateLocation is {self.state_location!r}, which lies in the path {self.path!r} and would be read; "
                "give a place outside of it, or in a folder whose name begins with '_'"
            )
        return self

    @property
    def bucket(self) -> str:
        """The bucket of the path."""
        return urlsplit(self.path).netloc

    @property
    def listing_rules(self) -> ListingRules:
        """Which objects of the bucket are meant."""
        prefix = self.path.partition(self.bucket)[2].lstrip("/")
        return ListingRules(
            prefix=prefix if not prefix or prefix.endswith("/") else f"{prefix}/",
            path_glob_filter=self.path_glob_filter,
            recursive=self.recursive_file_lookup,
            modified_after_ms=_milliseconds(self.modified_after),
            modified_before_ms=_milliseconds(self.modified_before),
        )


def _is_listed(location: str, path: str) -> bool:
    """Tell whether a place is one that a listing of the path finds."""
    if "://" not in location or location.lower().startswith("file:"):
        return False
    place, prefix = _path(location).rstrip("/") + "/", path.rstrip("/") + "/"
    return place.startswith(prefix) and not any(
        part.startswith(("_", ".")) for part in place.removeprefix(prefix).split("/")
    )


def _milliseconds(time: datetime | None) -> int | None:
    if time is None:
        return None
    return int((time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)).timestamp() * 1000)
