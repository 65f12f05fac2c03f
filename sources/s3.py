"""The S3 source, under the option names of Spark's file source and of Databricks' Auto Loader."""

from __future__ import annotations

from itertools import chain, islice
from typing import Annotated, Any, ClassVar, TypeAlias

import pyarrow as pa
from pydantic import BeforeValidator, ConfigDict, PositiveInt
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from typing_extensions import Self

from tidegate.alignment.budget import Budget
from tidegate.alignment.strategy import milliseconds
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.enumerators.ledger import Ledger
from tidegate.enumerators.object_discovery import ObjectDiscovery
from tidegate.enumerators.object_listing import ObjectListing
from tidegate.enumerators.object_times import ObjectTimes
from tidegate.enumerators.s3_enumerator import S3Enumerator
from tidegate.enumerators.seen_objects import SeenObjects
from tidegate.errors import OptionError
from tidegate.readers.conform import spark_schema
from tidegate.readers.contract import SplitReader
from tidegate.readers.object_store import ObjectStore
from tidegate.readers.path_times import PathTimes
from tidegate.readers.s3_reader import S3SplitReader
from tidegate.sources.contract import Source
from tidegate.sources.s3_connection import S3ConnectionOptions
from tidegate.sources.s3_discovery import S3DiscoveryOptions
from tidegate.sources.s3_format import S3FormatOptions

__all__ = ["S3Source"]

_SAMPLES = 16
_SCHEMA = "schema"  # the name of the inferred columns in the state location


def _columns(value: Any) -> Any:
    if isinstance(value, StructType):
        return to_arrow_schema(value, timezone="UTC")
    if not isinstance(value, pa.Schema):
        raise ValueError("give columns to Spark, by .schema(...), or in Python as a StructType or a pyarrow.Schema")  # noqa: TRY004
    return value


Columns: TypeAlias = Annotated[pa.Schema, BeforeValidator(_columns)]


class S3Source(S3DiscoveryOptions, S3FormatOptions, S3ConnectionOptions, Source):
    """Reads objects of an S3 bucket in the order of their event times.

    The classes it is made of describe their options; its own are:

    max_files_per_trigger, max_bytes_per_trigger: the most that one batch reads, but for one chunk.
    columns: the columns to read; by default they are inferred from some objects, and fixed in the state
        location.  One that an object lacks is null, one that is not named is left out.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)  # pyarrow's

    connector: ClassVar[str] = "s3"

    max_files_per_trigger: PositiveInt | None = None
    max_bytes_per_trigger: PositiveInt | None = None
    columns: Columns | None = None

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
        found = spark_schema(self.object_format(self._store()).infer(samples))
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
                self.object_format(self._store()),
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
            self.object_format(store),
            store,
            self.arrow_schema,
            ignore_missing=self.ignore_missing_files or not self.fail_on_data_loss,
            ignore_corrupt=self.ignore_corrupt_files,
        )

    def _store(self) -> ObjectStore:
        return ObjectStore(self.connection, self.bucket)

    def _listing(self) -> ObjectListing:
        return ObjectListing(self.connection, self.bucket, self.listing_rules)

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
        return None if self.state_location is None else Ledger(self.state_location, self.connection)
