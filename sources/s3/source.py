"""The S3 source, under the option names of Spark's file source and of Databricks' Auto Loader."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pydantic import PositiveInt, model_validator
from pydantic.alias_generators import to_camel
from typing_extensions import Self

from tidegate.alignment.budget import Budget
from tidegate.alignment.durations import milliseconds
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.enumerators.s3.cleaning import ObjectCleaner
from tidegate.enumerators.s3.discovery.complete_folders import MarkedFolders
from tidegate.enumerators.s3.discovery.listing import ObjectListing
from tidegate.enumerators.s3.discovery.rounds import ObjectDiscovery
from tidegate.enumerators.s3.enumerator import S3Enumerator
from tidegate.enumerators.s3.notifications.objects import ObjectNotifications
from tidegate.enumerators.s3.notifications.queue import NotificationQueue
from tidegate.enumerators.s3.state.ledger import Ledger
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.enumerators.s3.times.chunks import ObjectTimes
from tidegate.errors import CorruptDataError, ObjectGoneError, OptionError
from tidegate.readers.contract import SplitReader
from tidegate.readers.event_time.policy import LEAST_MS, EventTimePolicy
from tidegate.readers.formats.registry import FORMATS, Reading
from tidegate.readers.objects.values import ObjectFormat, S3Object
from tidegate.readers.places.place import BadRecordFolder
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.reader import S3SplitReader
from tidegate.readers.s3.store import ObjectStore
from tidegate.sources.contract import check_only_origin
from tidegate.sources.options import schema_of
from tidegate.sources.s3.first_objects import FirstObjects, find_samples
from tidegate.sources.s3.options import (
    KEPT_OPTIONS,
    S3ConnectionOptions,
    S3DiscoveryOptions,
    S3FormatOptions,
    S3RowOptions,
    is_listed,
)
from tidegate.sources.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NO_TOPICS = "S3 has no topics; set path to s3://bucket/prefix"
_ISO_8601 = "times are read in ISO 8601; read others as strings"
_SAMPLES = 16
_SCHEMA = "schema"  # the name of the inferred columns in the state location


class S3Source(S3DiscoveryOptions, S3FormatOptions, S3RowOptions, S3ConnectionOptions, Source):
    """Reads objects of an S3 bucket in the order of their event times.

    Its base classes describe their options; its own are:

    max_files_per_trigger: the maximum number of objects in one batch.
    max_bytes_per_trigger: the approximate maximum of bytes in one batch; a batch reads at least one chunk.
    """

    connector: ClassVar[str] = "s3"
    foreign_options: ClassVar[Mapping[str, str]] = {
        "paths": "a source reads one path, and what is below it; union several",
        "subscribe": _NO_TOPICS,
        "topic": _NO_TOPICS,
        "cloudfiles.usenotifications": "set queueUrl",
        "cloudfiles.schemalocation": "the columns are kept in stateLocation",
        "cloudfiles.infercolumntypes": "set inferSchema",
        "cloudfiles.schemaevolutionmode": "the columns of the first run stay; to read others, give a schema",
        "cloudfiles.schemahints": "give a schema",
        "mergeschema": "columns are inferred from the first objects together; to read others, give a schema",
        "linesep": "lines end at any usual line end; read binaryFile, and split the decoded content",
        "wholetext": "read binaryFile, and decode the content",
        "encoding": "text is UTF-8; read binaryFile, and decode the content",
        "columnnameofcorruptrecord": "the column is _corrupt_record; rename it with withColumnRenamed",
        "comment": "read text, leave out such lines, and parse the others by from_csv",
        "dateformat": _ISO_8601,
        "timestampformat": _ISO_8601,
        "timestampntzformat": _ISO_8601,
        "checkpointlocation": "set it on writeStream",
        "latestfirst": "objects are read in the order of their event times",
        "maxcachedfiles": "a round keeps all objects that it finds in stateLocation",
    }

    max_files_per_trigger: PositiveInt | None = None
    max_bytes_per_trigger: PositiveInt | None = None

    @classmethod
    def data_source_name(cls) -> str:
        """Return ``tidegate_s3``: Spark and others have formats of the connector's name."""
        return "tidegate_s3"

    @model_validator(mode="after")
    def _consistent_source(self) -> Self:
        if self.bad_records_path is not None and is_listed(self.bad_records_path, self.path):
            raise ValueError(
                f"badRecordsPath is {self.bad_records_path!r}, which lies in the path {self.path!r} and would be read; "
                "give a place outside of it, or in a folder whose name begins with '_'"
            )
        ranged = self.starting_timestamp is not None or self.ending_timestamp is not None
        if self.clean_source != "off" and ranged:
            raise ValueError(
                f"cleanSource is {self.clean_source!r}, but startingTimestamp or endingTimestamp leaves rows of an "
                "object unread, which would be gone with it; set one or the other"
            )
        if isinstance(self.columns, tuple) and self.enforce_schema:
            raise ValueError("enforceSchema takes columns by position, but columns selects some by their names")
        if self.watermark_from is not None:
            check_only_origin(self.watermarks)
        return self

    @classmethod
    def fields_from_options(cls, options: dict[str, str]) -> dict[str, Any]:
        """Also accept Spark's other names of the formats' options."""
        for factory in FORMATS.values():
            for alias, option in factory.aliases.items():
                if alias in options:
                    options.setdefault(option, options.pop(alias))
        return super().fields_from_options(options)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The given columns, or else those of the stream's first run, or else those of the first objects."""
        if isinstance(self.columns, pa.Schema):
            return self.with_own_columns(self.columns)
        ledger = self._ledger()
        fixed = None if ledger is None else ledger.noted(_SCHEMA)
        return self.selected(self._inferred() if fixed is None else pa.ipc.read_schema(pa.py_buffer(fixed)))

    def with_schema(self, schema: StructType) -> Self:
        """Return the source with these columns, which were given or inferred when it was loaded."""
        return self.model_copy(update={"columns": schema_of(schema)})

    @property
    def budget(self) -> Budget:
        """At most ``max_files_per_trigger`` objects and ``max_bytes_per_trigger`` bytes."""
        return Budget(bytes=self.max_bytes_per_trigger, files=self.max_files_per_trigger)

    @property
    def sets_bad_records_aside(self) -> bool:
        """Whether a place for bad records is set."""
        return self.bad_records_path is not None

    @property
    def has_completeness(self) -> bool:
        """Whether markers define the watermark."""
        return self.watermark_from is not None

    @property
    def has_watermarks(self) -> bool:
        """Whether the source has a watermark of its own, such as that of ``watermark_from``."""
        return self.has_completeness or super().has_watermarks

    @property
    def reads(self) -> str:
        """The path."""
        return self.path

    def as_batch(self) -> Self:
        """Return the source for a batch query: it keeps no state, and lists objects.

        A batch query has no next run, and the queue belongs to the stream.
        Raises OptionError for options that contradict the given columns, or leave a batch query nothing to read.
        """
        if not self.include_existing_files:
            raise OptionError("includeExistingFiles is false, which leaves a batch query nothing to read")
        if self.clean_source != "off":
            raise OptionError(
                f"cleanSource is {self.clean_source!r}, but a batch query commits nothing after which it could clean"
            )
        self._check()
        return self.model_copy(update={"columns": self.arrow_schema, "state_location": None, "queue_url": None})

    def as_stream(self) -> Self:
        """Return the source for a stream; its state location, which a restart needs, now fixes the columns.

        Raises OptionError without a state location, and for options that contradict the given columns.
        """
        ledger = self._require_state_location()
        self._check()
        if isinstance(self.columns, pa.Schema) and ledger.noted(_SCHEMA) is None:
            added = {field.name for field in self.own_columns()}
            fixed = pa.schema([field for field in self.columns if field.name not in added])
            ledger.write(_SCHEMA, fixed.serialize().to_pybytes())
        return self

    def read_stream(self, spark: SparkSession) -> DataFrame:
        """Return a streaming DataFrame of this source.  Raises OptionError without a state location."""
        self._require_state_location()
        return super().read_stream(spark)

    def enumerator(self, state: Json | None) -> SplitEnumerator:
        """Enumerate manifests of the objects under the path."""
        return S3Enumerator(
            self.discovery(),
            self._ledger(),
            state,
            include_existing=self.include_existing_files,
            holds_group=self.watermarks.group is not None and not self._has_ended,
            clean=None if self.clean_source == "off" else ObjectCleaner(self._store(), self.archive).clean,
            options={
                "path": f"s3://{self.bucket}/{self.listing_rules.prefix}",
                **{to_camel(field): getattr(self, field) for field in KEPT_OPTIONS},
            },
        )

    def discovery(self) -> ObjectDiscovery:
        """Return the discovery, which finds new objects, and cuts them into chunks."""
        store, rules = self._store(), self.listing_rules
        queue = None if self.queue_url is None else NotificationQueue(self.connection, self.queue_url)

        def pages_below(folder: str) -> Generator[Sequence[S3Object]]:
            return ObjectListing(self.connection, self.bucket, replace(rules, prefix=folder)).pages()

        objects = ObjectDiscovery(
            ObjectListing(self.connection, self.bucket, rules).pages,
            self._format(store),
            self._times,
            SeenObjects(milliseconds(self.max_file_age)),
            allow_overwrites=self.allow_overwrites,
            ignore_corrupt=self.ignore_corrupt_files,
            notifications=None if queue is None else ObjectNotifications(queue, store, rules, self.backfill_ms),
        )
        objects.folders = None if rules.markers is None else MarkedFolders(rules.markers, pages_below)
        return objects

    def reader(self, state: Json | None) -> SplitReader:
        """Read chunks of objects straight into Arrow."""
        del state
        store = self._store()
        return S3SplitReader(
            self._format(store),
            store,
            self.arrow_schema,
            prefix=self.listing_rules.columns_below,
            metadata=self.include_metadata,
            times=self._times.of_rows,
            time_column=self._times.by_column,
            ignore_missing=self._ignores_missing,
            # A later round discovers the new version, but a batch query has no later round.
            ignore_overwritten=not self.fail_on_data_loss
            or (self.allow_overwrites and self.state_location is not None),
            ignore_corrupt=self.ignore_corrupt_files,
            write_bad_records=None if self.bad_records_path is None else self._bad_record_folder.write,
        )

    @property
    def _bad_record_folder(self) -> BadRecordFolder:
        return BadRecordFolder(str(self.bad_records_path), self.connection)

    @property
    def _has_ended(self) -> bool:
        """Whether the end of the rows has come: then it is a true end, as that of a topic is, which waits as long."""
        end_ms = self.ending_timestamp
        return end_ms is not None and end_ms / 1000 + self.watermarks.idle_timeout.total_seconds() <= time.time()

    @property
    def _ignores_missing(self) -> bool:
        return self.ignore_missing_files or not self.fail_on_data_loss

    def _check(self) -> None:
        """Check the given columns, and the place of bad records."""
        if isinstance(self.columns, pa.Schema):
            self.check_given(self.columns)
            times = self._times.of_rows
            if times is not None:
                times.check(self.columns)
        if self.bad_records_path is not None:
            self._bad_record_folder.check()

    def _first_objects(self) -> FirstObjects:
        rules = self.listing_rules
        return FirstObjects(
            find_samples(self.connection, self.bucket, rules, _SAMPLES),
            self.path,
            rules,
            self.object_format(self._store()),
            self._times,
            has_to_be_timed=self.bad_event_time == "fail" and self.include_existing_files,
        )

    def _inferred(self) -> pa.Schema:
        ignored = (ObjectGoneError,) * self._ignores_missing + (CorruptDataError,) * self.ignore_corrupt_files
        try:
            return self._first_objects().columns(typed=self.partition_column_type_inference, ignored=ignored)
        except CorruptDataError as error:
            if "file_format" in self.model_fields_set:
                raise
            raise CorruptDataError(f"{error}; fileFormat is not set, and its default is {self.file_format}") from error

    def _store(self) -> ObjectStore:
        return ObjectStore(self.connection, self.bucket)

    def _format(self, store: ObjectStore) -> ObjectFormat:
        columns: tuple[str, ...] | None = None
        if isinstance(self.columns, pa.Schema):
            own = self.own_columns()  # the others come from the data
            of_data = self.bad_record_policy.data_schema(self.columns)
            columns = tuple(field.name for field in of_data if field not in own)
        reading = Reading(columns, self.listing_rules.columns_below, self._times.read_column)
        return self.object_format(store, reading)

    @property
    def location_connection(self) -> S3ConnectionConfig:
        """The source's own connection."""
        return self.connection

    @property
    def event_time_policy(self) -> EventTimePolicy:
        """The policy for bad and future event times; times before 1970 are as good as others."""
        return replace(super().event_time_policy, earliest_ms=LEAST_MS)

    @property
    def _times(self) -> ObjectTimes:
        return ObjectTimes(
            self.event_time_origin,
            unit=self.event_time_unit,
            parsed=self.format_factory.parsed_units,
            wanted=self.event_time_range,
            policy=self.event_time_policy,
            keeps_malformed=self.bad_record_policy.keeps_corrupt,
            prefix=self.listing_rules.columns_below,
            columns=self.columns if isinstance(self.columns, pa.Schema) else None,
        )

    def _require_state_location(self) -> Ledger:
        ledger = self._ledger()
        if ledger is None:
            raise OptionError(
                "the option 'stateLocation' is missing: a stream keeps there which objects it has discovered; give a "
                "folder of the driver, or s3://bucket/prefix"
            )
        return ledger

    def _ledger(self) -> Ledger | None:
        return None if self.state_location is None else Ledger(self.state_location, self.connection)
