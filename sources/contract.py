"""The contract of a source: what the bridge to Spark and the planner use.  ``Source`` adds how a session reads it.

The members of an alignment group meet in a folder of the application, or in one that several share.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field, PositiveInt, ValidationError, model_validator
from pydantic.alias_generators import to_snake
from typing_extensions import Self

from tidegate.alignment.budget import Budget
from tidegate.alignment.durations import milliseconds
from tidegate.alignment.plan import LateSplits
from tidegate.alignment.splits import Horizon
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.enumerators.folders.folder import Folder
from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.notes.application import application_notes, others_with
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.notes.group import GroupFolder, any_reads_on
from tidegate.errors import OptionError, StrategyError, did_you_mean
from tidegate.readers.contract import SplitReader
from tidegate.readers.event_time.policy import BadEventTime, EventTimePolicy, FutureEventTime
from tidegate.readers.models import Model
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.sources.options import Duration, option_names, sentence

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_EVENT_TIME = "event_time"  # the field of connectors whose users choose where event times come from


class StrategyOptions(Model):
    """The fields of ``WatermarkStrategy``, as Spark options."""

    max_drift: Duration | None = None
    out_of_orderness: Annotated[Duration | None, Field(serialization_alias="maxOutOfOrderness")] = None
    idle_timeout: Duration = WatermarkStrategy().idle_timeout
    group: Annotated[str | None, Field(serialization_alias="alignmentGroup")] = None
    group_members: Annotated[int | None, Field(serialization_alias="alignmentMembers")] = None
    group_location: Annotated[str | None, Field(serialization_alias="alignmentLocation")] = None
    group_lease: Annotated[Duration, Field(serialization_alias="alignmentLease")] = WatermarkStrategy().group_lease


_WATERMARK_OPTIONS = {option: field for field, option in option_names(StrategyOptions).items()}
_WATERMARK_ARGUMENTS = {to_snake(option): field for option, field in _WATERMARK_OPTIONS.items()}


class SourceContract(Model, ABC):
    """A source is its options plus two factories (FLIP-27: Source).

    Immutable and picklable, because it travels to the planner process and to every executor.  It opens nothing itself.
    A connector subclasses it, adds fields, and sets ``connector``.  The Spark option of a field ``max_drift`` is
    ``maxDrift``.

    watermarks: disorder, idleness and alignment.  In its place each part may be given by itself: as the Spark options
        ``maxOutOfOrderness``, ``idleTimeout``, ``maxDrift``, ``alignmentGroup``, ``alignmentMembers``,
        ``alignmentLocation`` and ``alignmentLease``, and in Python as ``max_out_of_orderness`` and so on.
    alignment: ``event-time`` cuts every batch at one event time.  ``none`` shares each batch by backlog.
    late_splits: the policy for a split that comes during the run, or wakes from idle, with records older than the
        watermark.  ``admit`` reads it at once, and its rows are late.  With ``catch-up`` the other splits wait for
        it.  ``fail`` ends the query.
    fail_on_data_loss: whether the query ends if unread records are gone, or if a split no longer holds the records
        that were read.
    min_partitions: the minimum number of tasks for a batch.  Default: by the size of the batch, at most three a core.
    bad_event_time: the policy for a row with a missing or unparsable event time, or a negative one if that means a
        missing one.  ``fail`` ends the query.  With ``record-timestamp`` the row's own timestamp replaces it.  With
        ``ignore`` the row is delivered, but planning and watermark leave it out.
    max_future_skew: an event time further ahead of the clock is in the future.
    future_event_time: the policy for a row whose event time is in the future.  With ``ignore`` the row is delivered,
        but planning and watermark leave it out.  With ``hold`` its split waits until the time is no longer so far
        ahead.  ``fail`` ends the query.
    source_watermark: ``column`` adds the source's watermark at the end of the batch to each row.  ``rows`` also adds a
        row with only the watermark when that moves, so that Spark's watermark and timers move while no data comes.
        ``tidegate.with_source_watermark`` uses both.
    target_batch_duration: size batches so that each takes about this time, within all other limits.  The first batch
        has at most 1,000 rows.
    max_trigger_delay: the longest that a batch waits until there are enough rows for it.
    discovery_interval: the time between two searches for new splits.
    log_level: the minimum level of the planner's log, on the driver's stderr.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    connector: ClassVar[str]
    """The connector's name, such as ``outbox``; checkpoints hold it."""

    foreign_options: ClassVar[Mapping[str, str]] = {}
    """Options that users know from elsewhere, in lower case, with the advice that replaces each, such as "set
    subscribe"."""

    watermarks: WatermarkStrategy = WatermarkStrategy()
    alignment: Literal["event-time", "none"] = "event-time"
    late_splits: LateSplits = "admit"
    fail_on_data_loss: bool = True
    min_partitions: PositiveInt | None = None
    bad_event_time: BadEventTime = "fail"
    max_future_skew: Annotated[Duration, Field(ge=timedelta(0))] = timedelta(days=1)
    future_event_time: FutureEventTime = "ignore"
    source_watermark: Literal["none", "column", "rows"] = "none"
    target_batch_duration: Annotated[Duration, Field(ge=timedelta(milliseconds=1))] | None = None
    max_trigger_delay: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(minutes=15)
    discovery_interval: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(seconds=30)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"

    @model_validator(mode="before")
    @classmethod
    def _with_timestamp_assigner(cls, fields: Any) -> Any:
        strategy = fields.get("watermarks") if isinstance(fields, dict) else None
        assigner = strategy.timestamp_assigner if isinstance(strategy, WatermarkStrategy) else None
        if assigner is None:
            return fields
        if _EVENT_TIME not in cls.model_fields:
            raise ValueError(f"watermarks has a timestamp assigner, but {cls.connector} has no option {_EVENT_TIME}")
        if fields.get(_EVENT_TIME, assigner) != assigner:
            raise ValueError(f"{_EVENT_TIME} is set, and watermarks has a timestamp assigner; set one of them")
        return {**fields, _EVENT_TIME: assigner}

    @model_validator(mode="after")
    def _consistent_event_time(self) -> Self:
        drift = self.watermarks.max_drift
        if self.alignment == "none" and drift is not None:
            raise ValueError("maxDrift needs alignment 'event-time', but it is 'none'")
        if self.alignment == "none" and self.future_event_time == "hold":
            raise ValueError("futureEventTime is 'hold', which needs alignment 'event-time'")
        if self.late_splits == "catch-up" and drift is None:
            raise ValueError("lateSplits is 'catch-up', which needs maxDrift")
        if self.source_watermark != "none" and not self.has_watermarks:
            raise ValueError(f"sourceWatermark is {self.source_watermark!r}, but the source has no watermarks")
        _ = self.alignment_folder
        return self

    if TYPE_CHECKING:  # they see the constructor that pydantic derives from the fields
        max_out_of_orderness: timedelta | str | None = None
        idle_timeout: timedelta | str = timedelta(minutes=1)
        max_drift: timedelta | str | None = None
        alignment_group: str | None = None
        alignment_members: int | None = None
        alignment_location: str | None = None
        alignment_lease: timedelta | str = timedelta(minutes=1)
    else:
        max_out_of_orderness = property(lambda self: self.watermarks.out_of_orderness)
        idle_timeout = property(lambda self: self.watermarks.idle_timeout)
        max_drift = property(lambda self: self.watermarks.max_drift)
        alignment_group = property(lambda self: self.watermarks.group)
        alignment_members = property(lambda self: self.watermarks.group_members)
        alignment_location = property(lambda self: self.watermarks.group_location)
        alignment_lease = property(lambda self: self.watermarks.group_lease)

        def __init__(self, **fields: Any) -> None:
            for name in fields:
                self._refuse_foreign(name)
            parts = {name: fields.pop(name) for name in _WATERMARK_ARGUMENTS if name in fields}
            strategy = _strategy(parts, _WATERMARK_ARGUMENTS)
            if strategy is not None and "watermarks" in fields:
                raise OptionError(f"{', '.join(parts)}: watermarks is set, and would override it; give one of them")
            if strategy is not None:
                fields["watermarks"] = strategy
            try:
                super().__init__(**fields)
            except ValidationError as error:
                names = [*type(self).model_fields, *_WATERMARK_ARGUMENTS]
                raise sentence(error, {name: name for name in names}) from None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Build the source from Spark's options, whose names are case-insensitive strings.

        Raises OptionError, one sentence, for the first option that is unknown or malformed.
        """
        fields = cls.fields_from_options({name.lower(): value for name, value in options.items()})
        source = cls.__new__(cls)
        try:
            # As BaseModel's own constructor does; ours would name fields, not options.
            cls.__pydantic_validator__.validate_python(fields, self_instance=source)
        except ValidationError as error:
            raise sentence(error, option_names(cls)) from None
        return source

    @classmethod
    def fields_from_options(cls, options: dict[str, str]) -> dict[str, Any]:
        """Return the fields that lower-case options set.

        A connector with options that do not match its fields takes these out of ``options`` first, and passes the rest
        to this method.
        """
        fields: dict[str, Any] = {}
        parts = {name: options.pop(name.lower()) for name in _WATERMARK_OPTIONS if name.lower() in options}
        strategy = _strategy(parts, _WATERMARK_OPTIONS)
        if strategy is not None:
            fields["watermarks"] = strategy
        names = {option.lower(): field for field, option in option_names(cls).items() if field != "watermarks"}
        for option, value in options.items():
            cls._refuse_foreign(option)
            if option not in names:
                raise OptionError(f"there is no option {option!r}{did_you_mean(option, cls.valid_options())}")
            fields[names[option]] = value
        return fields

    @classmethod
    def _refuse_foreign(cls, name: str) -> None:
        """Raise OptionError for an option that users know from elsewhere, whatever its case."""
        known = name.replace("_", "").lower()
        if name not in cls.model_fields and known in cls.foreign_options:
            raise OptionError(f"there is no option {name!r} here: {cls.foreign_options[known]}")

    @classmethod
    def valid_options(cls) -> list[str]:
        """Return the names of all Spark options of this source."""
        return [*(o for field, o in option_names(cls).items() if field != "watermarks"), *_WATERMARK_OPTIONS]

    @classmethod
    def data_source_name(cls) -> str:
        """Return the name of the source's format in Spark; the default is that of the connector."""
        return cls.connector

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The columns that the reader yields; none may be called ``source_watermark``.

        Called when the source is loaded without a schema; it may then read some data.
        """

    def with_schema(self, schema: StructType) -> Self:
        """Return the source with the columns of ``schema``, so that it need not infer them again.

        schema: the ``arrow_schema`` when the source was loaded, or the schema that the user gave to Spark, without
            ``source_watermark``.  The default is for sources whose columns are always the same.

        Raises OptionError for columns that the source does not have.
        """
        from tidegate.spark_private import from_arrow_schema  # options go without PySpark

        own = from_arrow_schema(self.arrow_schema)
        if _columns(schema) != _columns(own):
            raise OptionError(
                f"{self.data_source_name()} has columns of its own and takes no other schema: it gives "
                f"{', '.join(_columns(own))}, and not {', '.join(_columns(schema))}; if it gave the latter when the "
                "query was loaded, as before a new schema in a registry, load the query again"
            )
        return self

    @property
    def budget(self) -> Budget:
        """The limit of one batch, unless Spark sets a limit."""
        return Budget()

    @property
    def min_rows(self) -> int:
        """The number of unread rows for which a batch begins; with fewer, it begins after ``max_trigger_delay``."""
        return 0

    @property
    def max_positions_per_task(self) -> int | None:
        """The maximum number of positions in one task; None: any number."""
        return None

    @property
    def reads(self) -> str:
        """What is read, such as topics or a path; ``tidegate watch`` shows it.  It must hold no secret."""
        return self.connector

    @property
    def event_time_policy(self) -> EventTimePolicy:
        """The policy of the options for bad and future event times, for many rows at once."""
        return EventTimePolicy(self.bad_event_time, self.future_event_time, milliseconds(self.max_future_skew))

    def usable_time_ms(
        self,
        event_time_ms: int | None,
        where: str,
        horizon: Horizon,
        *,
        record_timestamp_ms: int | None = None,
    ) -> int | None:
        """Return the event time with which a row counts, in ms; None: planning and watermark leave it out.

        Asks ``event_time_policy`` about one row.  A time index uses it.  A reader calls it for every row, because one
        may be refused.

        where: the name of the row for the error, such as "orders: the row at 17".
        horizon: of the peek or of the task.
        record_timestamp_ms: replaces a bad time with ``record-timestamp``, such as the time when the row was written.
            None: the row has no such time, and is refused if it needs one.

        Raises CorruptDataError for a row that the options refuse.
        """
        return self.event_time_policy.time_of_row(event_time_ms, record_timestamp_ms, horizon, where)

    @property
    def location_connection(self) -> S3ConnectionConfig:
        """The connection to the bucket of ``alignmentLocation``; the default is boto3's usual configuration chain."""
        return S3ConnectionConfig()

    @property
    def alignment_folder(self) -> Folder | None:
        """The folder that the applications of the alignment group share; None: the group is within one application.

        Raises OptionError for a malformed location.
        """
        location = self.watermarks.group_location
        if location is None:
            return None
        return open_folder(location, self.location_connection, option="alignmentLocation", noun="alignment location")

    def as_batch(self) -> Self:
        """Return the source with the defaults of a batch query."""
        return self

    def settle(self) -> None:
        """Ask others for what stays the same as long as the source is loaded; the default asks nobody.

        Called when Spark loads the source, with a schema or without one, before it goes to other processes.
        """

    def as_stream(self) -> Self:
        """Return the source for a stream.  Raises OptionError for a missing option that only streams need."""
        return self

    @property
    def has_watermarks(self) -> bool:
        """Whether the source has a watermark of its own."""
        return self.watermarks.has_watermarks

    @property
    def sets_bad_records_aside(self) -> bool:
        """Whether the reader sets bad records aside, so that they are counted; it then is a SupportsBadRecords."""
        return False

    @property
    def selects_rows(self) -> bool:
        """Whether the reader leaves out rows that a condition does not select, so that a position may give no row."""
        return False

    @property
    def has_completeness(self) -> bool:
        """Whether the watermark is the time up to which the source is complete; for sources of tidegate itself."""
        return False

    @abstractmethod
    def enumerator(self, state: Json | None) -> SplitEnumerator:
        """Return a new enumerator; ``state`` is the snapshot in the start offset, if there is one.

        Called once per run, in the planner process.
        """

    @abstractmethod
    def reader(self, state: Json | None) -> SplitReader:
        """Return a new reader; ``state`` is the enumerator's snapshot when the task was planned.

        Called once per task, on an executor.
        """


def check_only_origin(watermarks: WatermarkStrategy) -> None:
    """Raise ValueError if both a strategy and the option watermarkFrom say where the watermark comes from."""
    if watermarks.generator is not None:
        raise ValueError("watermarkFrom is set, and watermarks has a generator; set one of them")
    if watermarks.out_of_orderness:
        raise ValueError("watermarkFrom and maxOutOfOrderness exclude each other; set one of them")


def _columns(schema: StructType) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema.fields]


def _strategy(parts: Mapping[str, Any], names: Mapping[str, str]) -> WatermarkStrategy | None:
    """Return the strategy with these parts; None: none is given.  ``names`` maps what users write to its fields."""
    if not parts:
        return None
    shown = {field: name for name, field in names.items()}
    try:
        given = StrategyOptions.model_validate({names[name]: value for name, value in parts.items()})
        return WatermarkStrategy(**given.model_dump(exclude_unset=True))
    except ValidationError as error:
        raise sentence(error, shown) from None
    except StrategyError as error:
        of_error = [shown[field] for field in shown if field in error.fields]
        if error.must:
            raise OptionError(f"the option {of_error[0]!r} is {parts[of_error[0]]!r}, but it {error.must}") from None
        raise OptionError(f"{error} (options {', '.join(of_error)})") from None


_LOG = logging.getLogger("tidegate.planner")
_SHARED_REPEAT_S = 1.0


def group_of(source: SourceContract, application_id: str) -> GroupFolder | None:
    """Return the group that a run of a source takes part in.  Called in the planner process.

    Logs a warning if another application on this machine has a group of the same name, and no location joins the two.
    """
    strategy = source.watermarks
    if strategy.group is None or strategy.max_drift_ms is None:
        return None
    return GroupFolder(
        _notes(source, application_id, strategy.group, lease_s := strategy.group_lease.total_seconds()),
        strategy.max_drift_ms,
        strategy.group_members,
        reads=source.reads,
        lease_s=lease_s,
    )


def _notes(source: SourceContract, application_id: str, group: str, lease_s: float) -> NoteFolder:
    if (location := source.alignment_folder) is not None:
        return NoteFolder(location, _SHARED_REPEAT_S).within(group)
    others = others_with(application_id, "groups", group, within_s=lease_s)
    others = [other for other in others if any_reads_on(application_notes(other).within("groups", group))]
    if others:
        _LOG.warning(
            "the application %s also has an alignmentGroup %r, and does not keep together with this one; "
            "set the same alignmentLocation in both, or another name",
            others[0],
            group,
        )
    return application_notes(application_id).within("groups", group)
