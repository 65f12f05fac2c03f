"""The options of the S3 source: its connection, objects, formats and rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from typing_extensions import Self

from tidegate.alignment.durations import epoch_ms, milliseconds
from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.enumerators.s3.times.origin import ColumnTimes, Origin, parse_markers, parse_origin
from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.arrow.conform import position_of
from tidegate.readers.event_time.columns import EventTimeRange
from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.formats.registry import FORMATS, INFERRED, FormatFactory, FormatName, Reading, formats_with
from tidegate.readers.models import Model
from tidegate.readers.objects.partitions import METADATA, is_hidden
from tidegate.readers.objects.values import ObjectFormat
from tidegate.readers.s3.config import S3Address, S3ConnectionConfig, s3_address
from tidegate.readers.s3.store import ObjectStore
from tidegate.sources.options import Duration, as_schema, lower_case


def _endpoint(value: Any) -> Any:
    url = urlsplit(str(value))
    if value is not None and (url.scheme not in {"https", "http"} or not url.hostname):
        raise ValueError("expected a URL, such as http://localhost:9000")
    if "@" in url.netloc:
        raise ValueError("a user or a password in the URL is not used; give keys in options of their own")
    return value


class S3ConnectionOptions(Model):
    """The connection to the bucket.

    endpoint: the URL of an endpoint other than AWS.
    region: the region of the bucket; default: the one that boto3 finds.
    access_key, secret_key, session_token: credentials, never shown.  Default: each machine uses those that boto3
        finds there, so no secret travels.
    anonymous: sign no request.
    role_arn: a role to assume.
    requester_pays: pay for the requests, if the bucket's owner does not.
    """

    endpoint: Annotated[str | None, BeforeValidator(_endpoint)] = None
    region: str | None = None
    access_key: Annotated[str | None, Field(repr=False)] = None
    secret_key: Annotated[str | None, Field(repr=False)] = None
    session_token: Annotated[str | None, Field(repr=False)] = None
    anonymous: bool = False
    role_arn: str | None = None
    requester_pays: bool = False

    @model_validator(mode="after")
    def _consistent_credentials(self) -> Self:
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("accessKey and secretKey are set together, or neither is")
        if self.anonymous and self.access_key is not None:
            raise ValueError("anonymous is set, and so is accessKey; set one of them")
        return self

    @property
    def connection(self) -> S3ConnectionConfig:
        """The options as readers and enumerators take them."""
        return S3ConnectionConfig(
            self.endpoint,
            self.region,
            self.access_key,
            self.secret_key,
            self.session_token,
            anonymous=self.anonymous,
            role=self.role_arn,
            requester_pays=self.requester_pays,
        )


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


class S3DiscoveryOptions(Model):
    """The objects to read, and the place that remembers the discovered objects.

    path: ``s3://bucket/prefix``: the objects right below it, and all below folders of partitions (``key=value``), with
        ``recursive_file_lookup`` below any folder.
    state_location: a folder or ``s3://bucket/prefix`` that remembers the discovered objects.  Each stream needs its
        own location, and keeps it as long as its checkpoint.
    path_glob_filter: the names to read, such as ``*.parquet``.
    recursive_file_lookup: look into all folders; their names are no columns then.
    modified_after, modified_before: read only objects with a LastModified between these times, both exclusive.
    include_existing_files: read the objects that exist when the query begins.
    ignore_archived_files: leave out objects of the storage classes ``GLACIER`` and ``DEEP_ARCHIVE``, restored or
        not.
    allow_overwrites: read an overwritten object again, and skip a version that waited to be read.
    max_file_age: objects that are older than the newest one by more than this are not discovered, except when the
        query begins.
    queue_url: an SQS queue with S3's notifications of new objects.  Objects are then listed once for each queue, after
        a pause longer than the queue's retention, and once per ``backfill_interval`` if it is given.
    backfill_interval: with ``queue_url``, the time between two listings of all objects, which find what no
        message named.  Default: no such listing.
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


KEPT_OPTIONS = (
    "file_format",
    "event_time",
    "event_time_unit",
    *(option for factory in FORMATS.values() for option in factory.split_options),
)
"""The options that decide how chunks are cut and planned; like the path, they stay from run to run."""


def _event_time(value: Any) -> Any:
    parse_origin(str(value))
    return value


def _file_format(value: Any) -> Any:
    """Return the name of a format as it is spelled here: Spark takes it in any case."""
    return next((name for name in FORMATS if name.lower() == lower_case(value)), value)


class S3FormatOptions(FormatOptions):
    """The format of objects.

    file_format: ``parquet``, ``orc``, ``avro``, ``json`` (a JSON object per line), ``csv``, ``text``, or ``binaryFile``
        (each object is a row).
    event_time: the origin of event times: ``column:NAME``, where NAME may be ``outer.inner``; ``path:TEMPLATE``, such
        as ``path:dt={yyyy-MM-dd}/hour={HH}``; or ``lastModified``.
    ignore_missing_files: skip objects that are gone before they are read.
    ignore_corrupt_files: skip objects, or the rest of them, that cannot be decoded.
    """

    file_format: Annotated[FormatName, BeforeValidator(_file_format)] = "parquet"
    event_time: Annotated[str, BeforeValidator(_event_time)] = "lastModified"
    ignore_missing_files: bool = False
    ignore_corrupt_files: bool = False

    @model_validator(mode="after")
    def _consistent_format(self) -> Self:
        if self.event_time_unit is not None and not isinstance(self.event_time_origin, ColumnTimes):
            raise ValueError(f"eventTimeUnit is {self.event_time_unit!r}, but only a column has a unit of its own")
        for field in sorted(self.model_fields_set):
            formats = formats_with(field)
            if formats and self.file_format not in formats:
                raise ValueError(
                    f"{to_camel(field)} is an option of {' and '.join(formats)}, but fileFormat is {self.file_format!r}"
                )
        return self

    @model_validator(mode="after")
    def _consistent_times_of_format(self) -> Self:
        origin, columns = self.event_time_origin, self.format_factory.time_columns
        if not isinstance(origin, ColumnTimes) or columns is None:
            return self
        if not columns:
            raise ValueError(
                f"eventTime is {self.event_time!r}, but {self.file_format} has no column of times: use path or "
                "lastModified"
            )
        if origin.name.lower() not in map(str.lower, columns):
            raise ValueError(
                f"eventTime is {self.event_time!r}, but {self.file_format} has times only in {' and '.join(columns)}"
            )
        return self

    @property
    def event_time_origin(self) -> Origin:
        """The origin of event times: the option, parsed."""
        return parse_origin(self.event_time)

    @property
    def format_factory(self) -> FormatFactory:
        """The factory of the format."""
        return FORMATS[self.file_format]

    def object_format(self, store: ObjectStore, reading: Reading = INFERRED) -> ObjectFormat:
        """Return the format that cuts and reads the objects of a bucket."""
        return self.format_factory.create(self, store, reading)


def _columns(value: Any) -> Any:
    value = as_schema(value)
    if isinstance(value, str):
        value = value.split(",")
    if isinstance(value, list | tuple) and all(isinstance(name, str) and name.strip() for name in value) and value:
        return tuple(name.strip() for name in value)
    if not isinstance(value, pa.Schema):
        raise ValueError("expected names of columns, in Python also a StructType or a pyarrow.Schema")  # noqa: TRY004
    return value


def _moment(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            value = parse_time(value)
    return epoch_ms(value) if isinstance(value, datetime) else value


Columns: TypeAlias = Annotated[pa.Schema | tuple[str, ...], BeforeValidator(_columns)]
Moment: TypeAlias = Annotated[int, BeforeValidator(_moment)]


class S3RowOptions(FormatOptions):
    """The rows and columns to read.

    columns: the names of inferred columns to read, or a schema.  Default: all columns of the first objects, fixed in
        the state location.  A column that an object lacks is null; a column that is not named is left out.
    starting_timestamp, ending_timestamp: read only rows with event times from ``starting_timestamp`` (inclusive) to
        ``ending_timestamp`` (exclusive); each in ms or as a datetime.  A stream whose end came ``idleTimeout`` before
        a run begins holds back the others of its alignment group only while it has unread rows.
    include_metadata: add the column ``_metadata``: the object and the chunk that a row comes from.
    partition_column_type_inference: infer types for columns in folders ``column=value``; otherwise they are strings.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)  # for pyarrow's schema

    columns: Columns | None = None
    starting_timestamp: Moment | None = None
    ending_timestamp: Moment | None = None
    include_metadata: bool = False
    partition_column_type_inference: bool = True

    @model_validator(mode="after")
    def _consistent_rows(self) -> Self:
        start, end = self.starting_timestamp, self.ending_timestamp
        if start is not None and end is not None and start >= end:
            raise ValueError("startingTimestamp is not before endingTimestamp, so there is nothing to read")
        return self

    @property
    def event_time_range(self) -> EventTimeRange:
        """The event times that are read."""
        return EventTimeRange(self.starting_timestamp, self.ending_timestamp)

    def own_columns(self) -> list[pa.Field]:
        """Return the columns that options add."""
        rescued = [] if self.rescued_data_column is None else [pa.field(self.rescued_data_column, pa.string())]
        return [*rescued, *([METADATA] if self.include_metadata else [])]

    def with_own_columns(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a schema, with those that options add if it lacks them."""
        return pa.schema([*schema, *(field for field in self.own_columns() if field.name not in schema.names)])

    def selected(self, inferred: pa.Schema) -> pa.Schema:
        """Return the inferred columns that are read.

        Raises OptionError for a name that no inferred column has, and for an option that adds a column which the
        objects already have.
        """
        for field in self.own_columns():
            if position_of(field.name, inferred.names) is not None:
                raise OptionError(
                    f"the objects have a column {field.name!r} of their own, so no option can add it; "
                    "give a schema or leave out the option"
                )
        available = self.with_own_columns(inferred)
        if not isinstance(self.columns, tuple):
            return available
        fields = []
        for name in self.columns:
            index = position_of(name, available.names)
            if index is None:
                raise OptionError(f"there is no column {name!r} to read{did_you_mean(name, available.names)}")
            if available.field(index) in fields:
                raise OptionError(f"columns names {name!r} twice")
            fields.append(available.field(index))
        return self.with_own_columns(pa.schema(fields))

    def check_given(self, schema: pa.Schema) -> None:
        """Raise OptionError for a given schema that names a column twice, or contradicts these options."""
        if twice := next((name for name in schema.names if schema.names.count(name) > 1), None):
            raise OptionError(f"the given schema names {twice!r} twice")
        for field in self.own_columns():
            index = schema.get_field_index(field.name)
            if index < 0 or schema.field(index).type != field.type:
                raise OptionError(
                    f"an option adds the column {field.name!r}, which the given schema lacks or has as another "
                    f"type than {field.type}: give it so, or leave out the option"
                )
        self.bad_record_policy.data_schema(schema)
