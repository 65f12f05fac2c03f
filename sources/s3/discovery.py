"""The options that say which objects are found, and what is remembered of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, Field, model_validator
from typing_extensions import Self

from tidegate.alignment.strategy import milliseconds
from tidegate.enumerators.s3.cleaning.cleaner import Archive
from tidegate.enumerators.s3.discovery.listing_rules import ListingRules
from tidegate.readers.s3.address import s3_address
from tidegate.sources.options import Duration

__all__ = ["S3DiscoveryOptions", "epoch_ms", "is_listed", "parse_time"]


def _path(value: Any) -> Any:
    found = s3_address(str(value))
    if found is None or not found.bucket:
        raise ValueError("expected a path such as s3://bucket/prefix")
    return str(found)


def parse_time(value: Any) -> Any:
    """Read a time as Spark does: ISO 8601, in UTC where it names no zone."""
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("expected a time such as 2026-11-21T12:00:00") from None


def _queue_url(value: Any) -> Any:
    found = urlsplit(str(value))
    if found.scheme not in {"https", "http"} or not found.hostname or not found.path.strip("/"):
        raise ValueError("expected the URL of a queue, such as https://sqs.eu-west-1.amazonaws.com/123456789012/name")
    if "@" in found.netloc:
        raise ValueError("a user or a password in the URL is not heeded; give accessKey and secretKey")
    return value


def _sure(value: Any) -> Any:
    if isinstance(value, str) and value.lower() == "auto":
        raise ValueError("expected true or false: whether keys rise with time is not guessed")
    return value


def _lower(value: Any) -> Any:
    """Read a word as Spark does, in any case."""
    return value.lower() if isinstance(value, str) else value


_BACKFILL_INTERVAL = timedelta(hours=1)  # of incremental listing, unless it is given
_UNORDERED = ("--x-s3", "--xa-s3")  # how the names of directory buckets end, and of their access points

Path: TypeAlias = Annotated[str, BeforeValidator(_path)]
QueueUrl: TypeAlias = Annotated[str, BeforeValidator(_queue_url)]
Time: TypeAlias = Annotated[datetime, BeforeValidator(parse_time)]


class S3DiscoveryOptions(BaseModel):
    """Which objects are read, and where it is noted which were found.

    path: ``s3://bucket/prefix``: all objects below it.
    state_location: a folder, or ``s3://bucket/prefix``, for what was discovered; a stream needs one
        of its own, and keeps it as long as its checkpoint.
    path_glob_filter: which names, such as ``*.parquet``.
    recursive_file_lookup: look into all folders, not only into those of partitions (``key=value``).
    modified_after, modified_before: leave out objects by LastModified; exclusive.
    include_existing_files: read what is there when the query begins.
    allow_overwrites: read an object again that was overwritten, and skip the version that waited to be read.
    max_file_age: how much older than the newest one an object may be and still be found; not when
        the query begins.
    queue_url: a queue of SQS that S3 tells what is new; listed is then only when the query begins, and
        once per backfill_interval, if it is given.
    use_incremental_listing: list only what comes after the keys that are known, for keys rise with time, and all
        once per backfill_interval, an hour unless it is given.
    clean_source: what becomes of an object when all of it is read and committed: ``off`` leaves it, ``archive``
        moves it to source_archive_dir, under its own key, ``delete`` deletes it.
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
    queue_url: QueueUrl | None = None
    use_incremental_listing: Annotated[bool, BeforeValidator(_sure)] = False
    backfill_interval: Annotated[Duration | None, Field(gt=timedelta(0))] = None
    clean_source: Annotated[Literal["off", "archive", "delete"], BeforeValidator(_lower)] = "off"
    source_archive_dir: Path | None = None

    @model_validator(mode="after")
    def _consistent_places(self) -> Self:
        if self.state_location is not None and is_listed(self.state_location, self.path):
            raise ValueError(
                f"stateLocation is {self.state_location!r}, which lies in the path {self.path!r} and would be read; "
                "give a place outside of it, or in a folder whose name begins with '_'"
            )
        return self

    @model_validator(mode="after")
    def _consistent_listing(self) -> Self:
        if self.use_incremental_listing and self.queue_url is not None:
            raise ValueError(
                "useIncrementalListing is true, and queueUrl is set: a queue tells what is new without a listing; "
                "set one or the other"
            )
        if self.use_incremental_listing and self.bucket.endswith(_UNORDERED):
            raise ValueError(
                f"useIncrementalListing is true, but {self.bucket!r} is a directory bucket, which lists in no order"
            )
        if self.backfill_interval is not None and self.queue_url is None and not self.use_incremental_listing:
            raise ValueError(
                "backfillInterval is set, but neither queueUrl nor useIncrementalListing is: every round lists all "
                "objects then"
            )
        return self

    @model_validator(mode="after")
    def _consistent_cleaning(self) -> Self:
        if self.source_archive_dir is None and self.clean_source == "archive":
            raise ValueError("cleanSource is 'archive', but the option 'sourceArchiveDir' is missing")
        if self.source_archive_dir is not None and self.clean_source != "archive":
            raise ValueError(
                f"sourceArchiveDir is {self.source_archive_dir!r}, which needs cleanSource 'archive', "
                f"but it is {self.clean_source!r}"
            )
        if self.archive is not None:
            prefix = self.listing_rules.prefix
            becomes = f"s3://{self.archive.bucket}/{self.archive.key(prefix)}"
            if is_listed(becomes, self.path):
                raise ValueError(
                    f"sourceArchiveDir is {self.source_archive_dir!r}, so that objects would go to {becomes!r}, "
                    f"which lies in the path {self.path!r} and would be read again; give a place outside of it"
                )
        return self

    @property
    def backfill_ms(self) -> int | None:
        """How long after a listing of all objects the next one is due; None: every round lists, or only the first."""
        interval = self.backfill_interval or (_BACKFILL_INTERVAL if self.use_incremental_listing else None)
        return None if interval is None else milliseconds(interval)

    @property
    def archive(self) -> Archive | None:
        """Where objects go that were read; None: nowhere."""
        place = None if self.source_archive_dir is None else s3_address(self.source_archive_dir)
        return None if place is None else Archive(place.bucket, place.key.rstrip("/"))

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
            modified_after_ms=epoch_ms(self.modified_after),
            modified_before_ms=epoch_ms(self.modified_before),
        )


def is_listed(location: str, path: str) -> bool:
    """Tell whether a place is one that a listing of the path finds."""
    found = s3_address(location)
    if found is None:
        return False
    place, prefix = f"{found}".rstrip("/") + "/", path.rstrip("/") + "/"
    return place.startswith(prefix) and not any(
        part.startswith(("_", ".")) for part in place.removeprefix(prefix).split("/")
    )


def epoch_ms(time: datetime | None) -> int | None:
    """Return a time in milliseconds since the epoch, of UTC where it has no zone."""
    if time is None:
        return None
    return int((time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)).timestamp() * 1000)
