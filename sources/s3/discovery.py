"""The options for discovering objects, and for remembering and cleaning them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator
from typing_extensions import Self

from tidegate.alignment.durations import epoch_ms, milliseconds
from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.enumerators.s3.times.markers import parse_markers
from tidegate.readers.objects.partitions import is_hidden
from tidegate.readers.s3.address import S3Address, s3_address
from tidegate.sources.options import Duration, lower_case


def _path(value: Any) -> Any:
    address = s3_address(str(value))
    if address is None or not address.bucket:
        raise ValueError("expected a path such as s3://bucket/prefix")
    return str(address)


def parse_time(value: Any) -> Any:
    """Return a time from a text, as Spark reads it: ISO 8601, in UTC if it names no zone."""
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("expected a time such as 2026-11-21T12:00:00") from None


def _queue_url(value: Any) -> Any:
    url = urlsplit(str(value))
    if url.scheme not in {"https", "http"} or not url.hostname or not url.path.strip("/"):
        raise ValueError("expected the URL of a queue, such as https://sqs.eu-west-1.amazonaws.com/123456789012/name")
    if "@" in url.netloc:
        raise ValueError("a user or a password in the URL is not used; give accessKey and secretKey")
    return value


def _watermark_from(value: str) -> str:
    parse_markers(value)
    return value


Path: TypeAlias = Annotated[str, BeforeValidator(_path)]
QueueUrl: TypeAlias = Annotated[str, BeforeValidator(_queue_url)]
Time: TypeAlias = Annotated[datetime, BeforeValidator(parse_time)]


class S3DiscoveryOptions(BaseModel):
    """The objects to read, and the place that remembers the discovered objects.

    path: ``s3://bucket/prefix``: all objects below it.
    state_location: a folder or ``s3://bucket/prefix`` that remembers the discovered objects.  Each stream needs its
        own location, and keeps it as long as its checkpoint.
    path_glob_filter: the names to read, such as ``*.parquet``.
    recursive_file_lookup: look into all folders, not only into folders of partitions (``key=value``).
    modified_after, modified_before: read only objects with a LastModified between these times, both exclusive.
    include_existing_files: read the objects that exist when the query begins.
    ignore_archived_files: leave out objects of the storage classes ``GLACIER`` and ``DEEP_ARCHIVE``, restored or
        not.
    allow_overwrites: read an overwritten object again, and skip a version that waited to be read.
    max_file_age: objects that are older than the newest one by more than this are not discovered, except when the
        query begins.
    queue_url: an SQS queue with S3's notifications of new objects.  Objects are then listed when the query begins,
        and once per ``backfill_interval`` if it is given.
    backfill_interval: with ``queue_url``, the time between two listings of all objects, which find what no message
        told.  Default: no such listing.
    watermark_from: ``marker:TEMPLATE``, such as ``marker:dt={yyyy-MM-dd}/hour={HH}/_SUCCESS``.  The watermark follows
        marker objects, which say that their folder is complete.  Streams only.
    clean_source: the fate of an object whose rows are all read and committed.  ``off`` leaves it, ``archive`` moves it
        to ``source_archive_dir`` under its own key, ``delete`` deletes it.
    source_archive_dir: ``s3://bucket/prefix`` in any bucket, outside of the path; required for ``archive``.
    """

    path: Path
    state_location: str | None = None
    path_glob_filter: str | None = None
    recursive_file_lookup: bool = False
    modified_after: Time | None = None
    modified_before: Time | None = None
    include_existing_files: bool = True
    ignore_archived_files: bool = False
    allow_overwrites: bool = False
    max_file_age: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(days=7)
    queue_url: QueueUrl | None = None
    backfill_interval: Annotated[Duration | None, Field(gt=timedelta(0))] = None
    watermark_from: Annotated[str, AfterValidator(_watermark_from)] | None = None
    clean_source: Annotated[Literal["off", "archive", "delete"], BeforeValidator(lower_case)] = "off"
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
        if self.backfill_interval is not None and self.queue_url is None:
            raise ValueError("backfillInterval is set, but queueUrl is not: every round lists all objects then")
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
            becomes = str(self.archive.within(self.listing_rules.prefix))
            if is_listed(becomes, self.path):
                raise ValueError(
                    f"sourceArchiveDir is {self.source_archive_dir!r}, so that objects would go to {becomes!r}, "
                    f"which lies in the path {self.path!r} and would be read again; give a place outside of it"
                )
        return self

    @property
    def backfill_ms(self) -> int | None:
        """The time from one listing of all objects to the next; None: every round lists all, or only the first."""
        return None if self.backfill_interval is None else milliseconds(self.backfill_interval)

    @property
    def archive(self) -> S3Address | None:
        """The folder of objects that were read."""
        place = None if self.source_archive_dir is None else s3_address(self.source_archive_dir)
        return None if place is None else place.folder

    @property
    def bucket(self) -> str:
        """The bucket of the path."""
        return urlsplit(self.path).netloc

    @property
    def listing_rules(self) -> ListingRules:
        """The rules for the objects of the bucket that are read."""
        prefix = self.path.partition(self.bucket)[2].lstrip("/")
        return ListingRules(
            prefix=prefix if not prefix or prefix.endswith("/") else f"{prefix}/",
            path_glob_filter=self.path_glob_filter,
            recursive=self.recursive_file_lookup,
            modified_after_ms=epoch_ms(self.modified_after),
            modified_before_ms=epoch_ms(self.modified_before),
            ignore_archived=self.ignore_archived_files,
            markers=None if self.watermark_from is None else parse_markers(self.watermark_from),
        )


def is_listed(location: str, path: str) -> bool:
    """Return whether a listing of the path finds objects at a location."""
    address = s3_address(location)
    if address is None:
        return False
    place, prefix = f"{address}".rstrip("/") + "/", path.rstrip("/") + "/"
    return place.startswith(prefix) and not any(map(is_hidden, place.removeprefix(prefix).split("/")))
