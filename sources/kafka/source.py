"""The Kafka source, under the option names of Spark's built-in one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import BeforeValidator, Field, PositiveInt, model_validator
from typing_extensions import Self

from tidegate.alignment.budget import Budget
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.enumerators.kafka.enumerator import KafkaEnumerator, KafkaTimestampEnumerator
from tidegate.enumerators.kafka.offsets import OffsetsSpec
from tidegate.enumerators.kafka.subscription import Assign, Subscribe, SubscribePattern, Subscription
from tidegate.enumerators.kafka.topics import KafkaSnapshot
from tidegate.enumerators.planning.run_log import first_names
from tidegate.errors import OptionError
from tidegate.readers.contract import SplitReader
from tidegate.readers.event_time.assigners import ColumnTimestamp, TimestampAssigner, assigner_of, names_a_column
from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.event_time.records import RecordTimes, marks_of, punctuated_by
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.kafka.client import EARLIEST, LATEST
from tidegate.readers.kafka.config import IsolationLevel, KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka.reader import KafkaSplitReader
from tidegate.readers.kafka.rows import BadRecordFile, arrow_schema
from tidegate.readers.kafka.typed import TypedRecords
from tidegate.readers.places.place import BadRecordFolder
from tidegate.sources.contract import check_only_origin
from tidegate.sources.kafka.java.properties import connection_config, read_properties, without_effect
from tidegate.sources.kafka.java.table import NO_GROUP
from tidegate.sources.kafka.option_types import (
    ArchiveColumns,
    ArchiveLocation,
    EndingOffsets,
    EventTimeOption,
    Partitions,
    StartingOffsets,
    Timestamp,
    Timestamps,
    TopicPattern,
    Topics,
    WatermarkFrom,
    archive_at,
    check_bad_records,
    check_order,
    committed_only,
    given_points,
    overruled,
)
from tidegate.sources.kafka.typed import TypedTopicOptions
from tidegate.sources.options import lower_case, option_names
from tidegate.sources.registry_options import RegistryOptions
from tidegate.sources.source import Source

_LOG = logging.getLogger("tidegate.planner")
_PREFIX = "kafka."
_IN_REGISTRY = ("avro:", "protobuf:")
_DEADLINE = "kafka.default.api.timeout.ms limits every operation, with all retries"
WITHOUT_EFFECT: Mapping[str, str] = {
    "kafkaConsumer.pollTimeoutMs": _DEADLINE,
    "fetchOffset.numRetries": _DEADLINE,
    "fetchOffset.retryIntervalMs": "kafka.retry.backoff.ms is the pause before any attempt",
    "groupIdPrefix": NO_GROUP,
}
"""Options that queries of Spark's own source may bring, and why they change nothing here."""
_ACCEPTED = frozenset(name.lower() for name in WITHOUT_EFFECT)
_SUBSCRIBE = "set subscribe, subscribePattern or assign"


class KafkaSource(TypedTopicOptions, RegistryOptions, Source):
    """Reads Kafka topics, aligned in event time.

    The Spark options have the names of Spark's built-in source, in camelCase.  Base classes describe those for typed
    topics and of the schema registry.

    bootstrap_servers: ``host:port``, several separated by commas; an IPv6 address in brackets.  Default port: 9092.
    kafka: the options ``kafka.*``: properties of the client without their prefix, such as
        ``{"isolation.level": "read_committed"}``.
    kafka_properties: a properties file of Kafka's own tools.  The driver reads it once.  It may also name the servers.
        ``kafka`` takes precedence.
    subscribe: the topics.  Exactly one of ``subscribe``, ``subscribe_pattern`` and ``assign`` is required.
    subscribe_pattern: a regular expression in the syntax of Java that whole topic names match.
    assign: partitions by topic, such as ``{"orders": [0, 1]}``.
    starting_offsets: ``earliest``, ``latest``, or an offset for every partition (-2 earliest, -1 latest).  Default:
        ``latest`` for streams, ``earliest`` for batch.  Only for new queries.  Partitions that appear later are read
        from their earliest offset.
    starting_offsets_by_timestamp: begin at the first record at or after a time, per partition.  Takes precedence over
        ``starting_offsets``, as in Spark.
    starting_timestamp: begin at the first record at or after this time, in all partitions; in ms or as a datetime.
        Takes precedence over the other two starts.
    starting_offsets_by_timestamp_strategy: the meaning of a starting time past the last record: ``error`` or
        ``latest``.
    starting_group_id: begin at the offsets that this consumer group has committed, and without one at
        ``starting_offsets``.  If that is not set, every partition must have one.  Excludes the starts by time.
    ending_offsets: the ends, exclusive: ``latest``, or an offset for every partition; resolved once per run.  A stream
        without an end never ends.
    ending_offsets_by_timestamp: end at a time per partition, as ``ending_timestamp``.  Precedes ``ending_offsets``.
    ending_timestamp: end before the first record at or after this time, in all partitions; precedes the other ends.  A
        stream waits for that record until ``idleTimeout`` after this time and the last one, and for open transactions.
    archive: an archive of the topics.  A Delta table: ``delta:`` and its folder, which all executors share, or
        ``delta:s3://bucket/prefix``.  An Iceberg table: ``iceberg:catalog.namespace.table``, with a catalog of
        pyiceberg's configuration.  Or what ``tidegate archive`` writes: the folder, or ``s3://bucket/prefix``.
        Committed records are read there and in Kafka, and no others.
    archive_columns: the columns of the table, if they have other names than Spark's Kafka source gives them, such as
        ``offset=meta.offset, topic='orders'``; a topic in quotes is that of all rows.
    event_time: the origin of event times: ``timestamp``, the record's own; ``header:NAME``;
        ``json:/pointer/into/value`` (RFC 6901); ``avro:`` or ``protobuf:`` with a pointer that names fields as the
        writer's schema does; or a column of the decoded value or key, such as ``value.at``, which is decoded once for
        rows and times.  In Python also any function from a RecordBatch with these columns to an int64 array of
        milliseconds.
    event_time_unit: the unit of a header or field: ``s``, ``ms``, ``us``, ``ns`` or ``iso8601``.  Default: detected
        from the first value, then fixed in the checkpoint.
    watermark_from: the origin of each partition's watermark in its records: ``header:NAME``, which implies
        ``include_headers``, or ``json:``, ``avro:`` or ``protobuf:`` with a pointer.  A value is a time by its type,
        ISO 8601, or a number that shows its unit by its size.  Streams only.  Default: the watermark is planned.
    max_offsets_per_trigger: the maximum number of offsets in one batch.
    max_bytes_per_trigger: the maximum of bytes in a batch, as stored in Kafka, estimated by the mean size of a record.
    min_offsets_per_trigger: delay a batch until there is this number of offsets, for ``max_trigger_delay`` at most.
        The first batch of a query does not wait, nor does any with ``availableNow``.
    max_records_per_partition: the maximum number of offsets in one Spark task.
    include_headers: add the column ``headers``.
    include_event_time: add two columns.  ``event_time`` is the time that planning used, null if it left the row out.
        ``event_time_fault`` is ``bad`` or ``future`` if the row's own time was, else null.
    commit_group_id: the consumer group to which each written batch is committed, so that lag tools see the query.  A
        failed commit is a warning.  Streams only.  The commits are never read back.
    """

    connector: ClassVar[str] = "kafka"
    foreign_options: ClassVar[Mapping[str, str]] = {
        "topic": f"{_SUBSCRIBE}; to write, use the format kafka",
        "topics": _SUBSCRIBE,
        "path": f"{_SUBSCRIBE}, and load without a path",
        "errors.deadletterqueue.topic.name": "set badRecordsPath",
        "errors.tolerance": "set badRecordsPath",
        "checkpointlocation": "set it on writeStream",
    }

    bootstrap_servers: Annotated[str, Field(min_length=1, serialization_alias="kafka.bootstrap.servers")]
    kafka: dict[str, Any] = Field(default_factory=dict, repr=False, serialization_alias="kafka.*")
    kafka_properties: Path | None = None
    subscribe: Annotated[Topics | None, Field(min_length=1)] = None
    subscribe_pattern: TopicPattern | None = None
    assign: Annotated[Partitions | None, Field(min_length=1)] = None
    starting_offsets: StartingOffsets | None = None
    starting_timestamp: Timestamp | None = None
    starting_offsets_by_timestamp: Timestamps | None = None
    starting_group_id: Annotated[str | None, Field(min_length=1)] = None
    starting_offsets_by_timestamp_strategy: Annotated[Literal["error", "latest"], BeforeValidator(lower_case)] = "error"
    ending_offsets: EndingOffsets | None = None
    ending_timestamp: Timestamp | None = None
    ending_offsets_by_timestamp: Timestamps | None = None
    archive: ArchiveLocation | None = None
    archive_columns: Annotated[ArchiveColumns | None, Field(serialization_alias="archive.columns")] = None
    event_time: EventTimeOption = "timestamp"
    event_time_unit: TimeUnit | None = None
    watermark_from: WatermarkFrom | None = None
    max_offsets_per_trigger: PositiveInt | None = None
    max_bytes_per_trigger: PositiveInt | None = None
    min_offsets_per_trigger: PositiveInt | None = None
    max_records_per_partition: PositiveInt | None = None
    include_headers: bool = False
    include_event_time: bool = False
    commit_group_id: Annotated[str | None, Field(min_length=1)] = None
    _of_spark: tuple[str, ...] = ()  # the options without effect that were set
    _reads_on: bool = True  # where a time that ends a partition is still to come

    @classmethod
    def data_source_name(cls) -> str:
        """Return ``tidegate_kafka``: Spark and others have formats of the connector's name."""
        return "tidegate_kafka"

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Build the source from Spark's options; those of ``WITHOUT_EFFECT`` are accepted, and change nothing."""
        names = {name.lower() for name in options}
        source = super().from_options({n: v for n, v in options.items() if n.lower() not in _ACCEPTED})
        source._of_spark = tuple(name for name in WITHOUT_EFFECT if name.lower() in names)  # noqa: SLF001 - ours
        return source

    @classmethod
    def fields_from_options(cls, options: dict[str, str]) -> dict[str, Any]:
        """Gather ``kafka.*`` in one field."""
        properties = {n.removeprefix(_PREFIX): options.pop(n) for n in [*options] if n.startswith(_PREFIX)}
        servers = properties.pop("bootstrap.servers", None)
        if servers is None and "kafkaproperties" not in options:
            connection_config("localhost", properties)  # a misspelt name explains the missing one
        given = {} if servers is None else {"bootstrap_servers": servers}
        return {**super().fields_from_options(options), **given, "kafka": properties}

    @model_validator(mode="before")
    @classmethod
    def _with_file(cls, fields: Any) -> Any:
        path = fields.get("kafka_properties") if isinstance(fields, dict) else None
        given = fields.get("kafka", {}) if isinstance(fields, dict) else None
        if not isinstance(path, str | Path) or not isinstance(given, dict):
            return fields
        in_file = read_properties("kafkaProperties", Path(path))
        servers = in_file.pop("bootstrap.servers", None)
        kafka = {**in_file, **given}
        return {**({} if servers is None else {"bootstrap_servers": servers}), **fields, "kafka": kafka}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._check_subscription()
        self._check_starting_group()
        registry = self.registry  # raises for contradictory options, whatever they are for
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise ValueError(f"minOffsetsPerTrigger is {least}, more than maxOffsetsPerTrigger, which is {most}")
        for start, end in zip(self._starts[:1], self._ends[:1], strict=False):
            check_order(start, end)
        if any(end.names(EARLIEST) for end in self._ends[:1]):
            raise ValueError("endingOffsets says earliest (-2), before any record; allowed are latest and offsets")
        if self.event_time_unit is not None and (self.event_time == "timestamp" or callable(self.event_time)):
            raise ValueError(
                f"eventTimeUnit is {self.event_time_unit!r}, but only a header or a field has a unit of its own"
            )
        if self.watermark_from is not None:
            check_only_origin(self.watermarks)
            marks_of(self.watermark_from, registry)
        if self.archive_columns is not None and not (self.archive or "").startswith(("delta:", "iceberg:")):
            raise ValueError("archive.columns is set, but archive names no table, such as delta:s3://lake/orders")
        check_bad_records(self.bad_records_path, super().event_time_policy, is_typed=self.is_typed)
        self.check_typed(registry, self._topics, self.watermark_from)
        if not self.decodes_registered:
            _ = self.arrow_schema, self.event_times
        _ = self._config  # these also raise for what cannot be
        return self

    @property
    def _topics(self) -> tuple[str, ...]:
        return tuple(self.subscribe or self.assign or ())

    @cached_property
    def typed(self) -> TypedRecords | None:
        """What decodes records, and selects rows and columns; None: rows stay as Kafka has them.

        Pickled with the source once it is settled, so that all processes of a query have the schema that the registry
        had when the source was loaded.
        """
        column = self.event_time if isinstance(self.event_time, str) and names_a_column(self.event_time) else None
        return self.typed_records(self.registry, self._topics, self._own_columns, column)

    def settle(self) -> None:
        """Ask the registry for the schemas of typed values.  Raises the errors of the registry."""
        _ = self.typed

    @property
    def _has_headers(self) -> bool:
        """Whether rows have the column ``headers``: a generator sees the columns of the rows, and no others."""
        return self.include_headers or (self.watermark_from or "").startswith("header:")

    @property
    def event_time_policy(self) -> EventTimePolicy:
        """The policy of the options; records that it refuses are set aside if there is a place for them."""
        return replace(super().event_time_policy, sets_aside=self.sets_bad_records_aside)

    def _check_subscription(self) -> None:
        names = option_names(type(self))
        fields = ("subscribe", "subscribe_pattern", "assign")
        set_options = [names[field] for field in fields if getattr(self, field) is not None]
        if len(set_options) > 1:
            raise ValueError(f"the options {' and '.join(set_options)} exclude each other; set one of them")
        if not set_options:
            raise ValueError(f"one of the options {', '.join(names[field] for field in fields)} must be set")

    def _check_starting_group(self) -> None:
        by_time = [start.option for start in self._starts if start.option != "startingOffsets"]
        if self.starting_group_id is not None and by_time:
            raise ValueError(f"the options startingGroupId and {by_time[0]} exclude each other; set one of them")

    @property
    def _starts(self) -> list[OffsetsSpec]:
        """The starts that are set, without that of a group; the first one decides."""
        points = self.starting_timestamp, self.starting_offsets_by_timestamp, self.starting_offsets
        return given_points("starting", *points)

    @property
    def _ends(self) -> list[OffsetsSpec]:
        """The ends that are set; the first one decides."""
        points = given_points("ending", self.ending_timestamp, self.ending_offsets_by_timestamp, self.ending_offsets)
        wait_s = self.watermarks.idle_timeout.total_seconds() if self._reads_on else None
        return [replace(point, wait_s=wait_s) for point in points]

    @property
    def without_effect(self) -> list[str]:
        """The options that are set and change nothing, each with the reason."""
        names = option_names(type(self))
        reasons = without_effect(self.kafka)
        reasons += [f"{name} ({WITHOUT_EFFECT[name]})" for name in self._of_spark]
        origins = (str(self.event_time), str(self.watermark_from))
        asks = self.decodes_registered or any(origin.startswith(_IN_REGISTRY) for origin in origins)
        if self.schema_registry_url is not None and not asks:
            beginnings = f"no format is avro or protobuf, and no event time begins with {' or '.join(_IN_REGISTRY)}"
            reasons.append(f"{names['schema_registry_url']} ({beginnings})")
        return [*reasons, *overruled(self._starts), *overruled(self._ends)]

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of Spark's built-in Kafka source, types and nullability included, decoded as the options say."""
        return self._own_columns if self.typed is None else self.typed.delivered_schema(self._own_columns)

    @property
    def _own_columns(self) -> pa.Schema:
        return arrow_schema(include_headers=self._has_headers, include_event_time=self.include_event_time)

    @property
    def budget(self) -> Budget:
        """At most ``max_offsets_per_trigger`` offsets and ``max_bytes_per_trigger`` bytes."""
        return Budget(rows=self.max_offsets_per_trigger, bytes=self.max_bytes_per_trigger)

    @property
    def min_rows(self) -> int:
        """At least ``min_offsets_per_trigger`` offsets."""
        return self.min_offsets_per_trigger or 0

    @property
    def max_positions_per_task(self) -> int | None:
        """At most ``max_records_per_partition`` offsets."""
        return self.max_records_per_partition

    @property
    def reads(self) -> str:
        """The topics, or the first few of many, and the servers."""
        topics = self.subscribe_pattern or first_names(self.subscribe or self.assign or ())
        return f"{topics} at {self.bootstrap_servers}"

    def as_batch(self) -> Self:
        """Begin at the earliest offsets by default, as Spark's own batch source does."""
        if any(start.names(LATEST) for start in self._starts[:1]):
            raise OptionError(
                "startingOffsets says latest (-1), from where a batch query would read nothing; set earliest or offsets"
            )
        if self.commit_group_id is not None:
            raise OptionError("commitGroupId is for streams: a batch query has no batches that are committed")
        self._check_place()
        own = {} if self._starts or self.starting_group_id is not None else {"starting_offsets": "earliest"}
        return self.model_copy(update=own).up_to_now()

    def up_to_now(self) -> Self:
        """Return the source of what there is now: also where a time is still to come, a partition ends at its end."""
        source = self.model_copy(update={} if self._ends else {"ending_offsets": "latest"})
        source._reads_on = False  # noqa: SLF001 - ours
        return source

    @property
    def has_watermarks(self) -> bool:
        """Whether the source has a watermark of its own, such as that of ``watermark_from``."""
        return self.watermark_from is not None or super().has_watermarks

    def as_stream(self) -> Self:
        """Return the source with the watermark of ``watermark_from``.  Raises the errors of a place for bad records."""
        self._check_place()
        if self.watermark_from is None:
            return self
        marked = punctuated_by(self.watermark_from, self.registry)
        strategy = replace(self.watermarks, out_of_orderness=None, generator=marked)
        return self.model_copy(update={"watermarks": strategy})

    def _check_place(self) -> None:
        if (folder := self._bad_records_folder) is not None:
            folder.check()

    @property
    def _bad_records_folder(self) -> BadRecordFolder | None:
        path = self.bad_records_path
        return None if path is None else BadRecordFolder(path, self.location_connection)

    def enumerator(self, state: Json | None) -> SplitEnumerator:
        """Enumerate the subscribed partitions."""
        if unused := self.without_effect:
            _LOG.warning("these options have no effect: %s", ", ".join(unused))
        kind = KafkaTimestampEnumerator if self.event_times.by_record_timestamp else KafkaEnumerator
        made = kind(
            self._config,
            self._subscription(),
            self._start,
            next(iter(self._ends), None),
            state,
            event_times=self.event_times,
            fail_on_data_loss=self.fail_on_data_loss,
            commit_group_id=self.commit_group_id,
        )
        if (archive := archive_at(self.archive, self.archive_columns)) is not None:
            made.add_archive(archive)
        return made

    def reader(self, state: Json | None) -> SplitReader:
        """Read record batches straight into Arrow."""
        event_times = KafkaSnapshot.from_json(state).with_detected_unit(self.event_times)
        folder = self._bad_records_folder
        formats = self.value_format, self.value_schema, self.key_format, self.key_schema, self.where
        rescues = self.rescued_data_column is not None
        identity = f"{event_times.name} {self.event_time_unit} {event_times.policy.bad} {self.isolation_level}"
        identity += f" {formats} {rescues}" if self.is_typed else ""
        return KafkaSplitReader(
            self._config,
            include_headers=self._has_headers,
            fail_on_data_loss=self.fail_on_data_loss,
            event_times=event_times,
            bad_records=None if folder is None else BadRecordFile(folder, identity),
            include_event_time=self.include_event_time,
            typed=self.typed,
            archive=archive_at(self.archive, self.archive_columns),
        )

    @property
    def _config(self) -> KafkaConnectionConfig:
        config = connection_config(self.bootstrap_servers, self.kafka)
        return config if self.archive is None else committed_only(config, self.kafka)

    @property
    def isolation_level(self) -> IsolationLevel:
        """The one that is in force, by the properties, the archive or Kafka's default."""
        return self._config.isolation_level

    @property
    def _start(self) -> OffsetsSpec:
        default = LATEST if self.starting_group_id is None else None
        start = next(iter(self._starts), OffsetsSpec("startingOffsets", default))
        strategy, group = self.starting_offsets_by_timestamp_strategy, self.starting_group_id
        return replace(start, without_record=strategy, group_id=group)

    @property
    def event_times(self) -> RecordTimes:
        """The origin of event times, and the policy for rows without a usable one."""
        assigner: TimestampAssigner
        if isinstance(self.event_time, str) and names_a_column(self.event_time):
            read = (self.typed or TypedRecords()).column(self.event_time, self.event_time_unit)
            assigner = ColumnTimestamp(self.event_time, read, self.event_time_unit)
        elif isinstance(self.event_time, str):
            assigner = assigner_of(self.event_time, self.event_time_unit, self.registry)
        else:
            assigner = self.event_time
        return RecordTimes(assigner, self.event_time_policy)

    def _subscription(self) -> Subscription:
        if self.subscribe is not None:
            return Subscribe(tuple(self.subscribe))
        if self.subscribe_pattern is not None:
            return SubscribePattern(self.subscribe_pattern)
        return Assign(tuple(TopicPartition(topic, p) for topic, ps in (self.assign or {}).items() for p in ps))
