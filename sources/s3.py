"""The S3 source, under the option names of Spark's file source and of Databricks' Auto Loader."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import chain, islice
from typing import Annotated, Any, ClassVar, Literal, TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa
from pydantic import BeforeValidator, ConfigDict, Field, PositiveInt, model_validator
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from typing_extensions import Self

from tidegate.alignment.budget import Budget
from tidegate.alignment.strategy import milliseconds
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.enumerators.ledger import Ledger
from tidegate.enumerators.object_discovery import ObjectDiscovery
from tidegate.enumerators.object_listing import ListingRules, ObjectListing
from tidegate.enumerators.object_times import ObjectTimes
from tidegate.enumerators.s3_enumerator import S3Enumerator
from tidegate.enumerators.seen_objects import SeenObjects
from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.conform import spark_schema
from tidegate.readers.contract import SplitReader
from tidegate.readers.event_time import TimeUnit
from tidegate.readers.json_format import JsonFormat
from tidegate.readers.object_store import ObjectStore
from tidegate.readers.objects import ObjectFormat
from tidegate.readers.parquet_format import ParquetFormat
from tidegate.readers.path_times import PathTimes
from tidegate.readers.s3_config import S3ConnectionConfig
from tidegate.readers.s3_reader import S3SplitReader
from tidegate.sources.contract import Source
from tidegate.sources.options import Duration

__all__ = ["S3Source"]

_FORMATS = {"parquet": ParquetFormat, "json": JsonFormat}
_SAMPLES = 16
_SCHEMA = "schema"  # the name of the inferred columns in the state location


def _path(value: Any) -> Any:
    found = urlsplit(str(value))
    if found.scheme not in {"s3", "s3a", "s3n"} or not found.netloc:
        raise ValueError("expected a path such as s3://bucket/prefix")
    return f"s3://{found.netloc}/{str(value).partition(found.netloc)[2].lstrip('/')}"


def _event_time(value: Any) -> Any:
    kind, colon, rest = str(value).partition(":")
    if kind == "path" and colon:
        PathTimes(rest)
    elif not (value == "lastModified" or (kind == "column" and rest)):
        nearest = did_you_mean(kind, ["lastModified", "column:", "path:"])
        raise ValueError(f"expected lastModified, column:NAME or path:TEMPLATE{nearest}")
    return value


def _time(value: Any) -> Any:
    """Read a time as Spark does: ISO 8601, in UTC where it names no zone."""
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("expected a time such as 2026-11-21T12:00:00") from None


def _columns(value: Any) -> Any:
    if isinstance(value, StructType):
        return to_arrow_schema(value, timezone="UTC")
    if not isinstance(value, pa.Schema):
        raise ValueError("give columns to Spark, by .schema(...), or in Python as a StructType or a pyarrow.Schema")  # noqa: TRY004
    return value


Columns: TypeAlias = Annotated[pa.Schema, BeforeValidator(_columns)]
Path: TypeAlias = Annotated[str, BeforeValidator(_path)]
Time: TypeAlias = Annotated[datetime, BeforeValidator(_time)]


class S3Source(Source):
    """Reads objects of an S3 bucket in the order of their event times.

    path: ``s3://bucket/prefix``: all objects below it.
    file_format: ``parquet`` or ``json`` (a JSON value per line, also compressed).
    event_time: where event times come from: ``column:NAME``, which may be ``outer.inner``;
        ``path:TEMPLATE`` such as ``path:dt={yyyy-MM-dd}/hour={HH}``; or ``lastModified``.
    event_time_unit: of a column of numbers or text: ``s``, ``ms``, ``us`` or ``iso8601``.
    state_location: a folder, or ``s3://bucket/prefix``, for what was discovered; a stream needs one
        of its own, and keeps it as long as its checkpoint.
    endpoint, region, access_key, secret_key, session_token, anonymous, role_arn: how to reach the
        bucket; by default as boto3 finds it, and nothing secret travels.
    path_glob_filter: which names, such as ``*.parquet``.
    recursive_file_lookup: look into all folders, not only into those of partitions (``key=value``).
    modified_after, modified_before: leave out objects by LastModified; exclusive.
    include_existing_files: read what is there when the query begins.
    allow_overwrites: read an object again that was overwritten.
    ignore_missing_files: skip objects that are gone when they are to be read.
    ignore_corrupt_files: skip objects, or the rest of them, that cannot be decoded.
    max_files_per_trigger, max_bytes_per_trigger: the most that one batch reads, but for one chunk.
    columns: the columns to read; by default they are inferred from some objects, and fixed in the state
        location.  One that an object lacks is null, one that is not named is left out.
    max_file_age: how much older than the newest one an object may be and still be found; not when
        the query begins.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)  # pyarrow's

    connector: ClassVar[str] = "s3"

    path: Path
    file_format: Literal["parquet", "json"] = "parquet"
    event_time: Annotated[str, BeforeValidator(_event_time)] = "lastModified"
    event_time_unit: TimeUnit | None = None
    state_location: str | None = None
    endpoint: str | None = None
    region: str | None = None
    access_key: Annotated[str | None, Field(repr=False)] = None
    secret_key: Annotated[str | None, Field(repr=False)] = None
    session_token: Annotated[str | None, Field(repr=False)] = None
    anonymous: bool = False
    role_arn: str | None = None
    path_glob_filter: str | None = None
    recursive_file_lookup: bool = False
    modified_after: Time | None = None
    modified_before: Time | None = None
    include_existing_files: bool = True
    allow_overwrites: bool = False
    ignore_missing_files: bool = False
    ignore_corrupt_files: bool = False
    max_files_per_trigger: PositiveInt | None = None
    max_bytes_per_trigger: PositiveInt | None = None
    max_file_age: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(days=7)
    columns: Columns | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("accessKey and secretKey are set together, or neither is")
        if self.anonymous and self.access_key is not None:
            raise ValueError("anonymous is set, and so is accessKey; set one of them")
        if self.state_location is not None and _is_listed(self.state_location, self.path):
            raise ValueError(
                f"stateLocation is {self.state_location!r}, which lies in the path {self.path!r} and would be read; "
                "give a place outside of it, or in a folder whose name begins with '_'"
            )
        if self.event_time_unit is not None and not self.event_time.startswith("column:"):
            raise ValueError(f"eventTimeUnit is {self.event_time_unit!r}, but only a column has a unit of its own")
        return self

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns that were given, or else those of some objects, which are fixed in the state location."""
        if self.columns is not None:
            return self.columns
        ledger = self._ledger()
        if ledger is not None and _SCHEMA in ledger.names():
            return pa.ipc.read_schema(pa.py_buffer(ledger.read(_SCHEMA)))
        samples = list(islice(chain.from_iterable(self._listing().pages()), _SAMPLES))
        if not samples:
            raise OptionError(f"there is no object under {self.path} to infer columns from; give a schema")
        found = spark_schema(self._format(self._store()).infer(samples))
        if ledger is not None:
            ledger.write(_SCHEMA, found.serialize().to_pybytes())
        return found

    def with_schema(self, schema: StructType) -> Self:
        """Read these columns, as given or as inferred when the source was loaded."""
        return self.model_copy(update={"columns": to_arrow_schema(schema, timezone="UTC")})

    @property
    def budget(self) -> Budget:
        """At most ``max_files_per_trigger`` objects and ``max_bytes_per_trigger`` bytes."""
        return Budget(bytes=self.max_bytes_per_trigger, files=self.max_files_per_trigger)

    @property
    def reads(self) -> str:
        """The path."""
        return self.path

    def as_batch(self) -> Self:
        """Keep no state, for a batch query has no next run."""
        return self.model_copy(update={"columns": self.arrow_schema, "state_location": None})

    def as_stream(self) -> Self:
        """Require a place for what is discovered, which a restart must find."""
        if self.state_location is None:
            raise OptionError("the option 'stateLocation' is missing: a stream keeps there what it has discovered")
        return self

    def enumerator(self, state: Json | None) -> SplitEnumerator:
        """Enumerate manifests of what is under the path."""
        ledger = self._ledger()
        return S3Enumerator(
            ObjectDiscovery(
                self._listing().pages,
                self._format(self._store()),
                self._times(),
                SeenObjects(milliseconds(self.max_file_age)),
                allow_overwrites=self.allow_overwrites,
                ignore_corrupt=self.ignore_corrupt_files,
            ),
            ledger,
            state,
            include_existing=self.include_existing_files,
        )

    def reader(self, state: Json | None) -> SplitReader:
        """Read chunks of objects straight into Arrow."""
        del state
        store = self._store()
        return S3SplitReader(
            self._format(store),
            store,
            self.arrow_schema,
            ignore_missing=self.ignore_missing_files or not self.fail_on_data_loss,
            ignore_corrupt=self.ignore_corrupt_files,
        )

    def _place(self) -> tuple[str, str]:
        found = urlsplit(self.path)
        return found.netloc, self.path.partition(found.netloc)[2].lstrip("/")

    def _connection(self) -> S3ConnectionConfig:
        return S3ConnectionConfig(
            self.endpoint,
            self.region,
            self.access_key,
            self.secret_key,
            self.session_token,
            anonymous=self.anonymous,
            role=self.role_arn,
        )

    def _store(self) -> ObjectStore:
        return ObjectStore(self._connection(), self._place()[0])

    def _format(self, store: ObjectStore) -> ObjectFormat:
        return _FORMATS[self.file_format](store, self.event_time_unit)

    def _listing(self) -> ObjectListing:
        bucket, prefix = self._place()
        rules = ListingRules(
            prefix=prefix if not prefix or prefix.endswith("/") else f"{prefix}/",
            path_glob_filter=self.path_glob_filter,
            recursive=self.recursive_file_lookup,
            modified_after_ms=_milliseconds(self.modified_after),
            modified_before_ms=_milliseconds(self.modified_before),
        )
        return ObjectListing(self._connection(), bucket, rules)

    def _times(self) -> ObjectTimes:
        kind, _, rest = self.event_time.partition(":")
        return ObjectTimes(
            column=rest if kind == "column" else None,
            path=PathTimes(rest) if kind == "path" else None,
            bad=self.bad_event_time,
            future=self.future_event_time,
            max_future_skew_ms=milliseconds(self.max_future_skew),
        )

    def _ledger(self) -> Ledger | None:
        return None if self.state_location is None else Ledger(self.state_location, self._connection())


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
