"""The factory of Parquet.  Damaged objects may end the process that decodes, so Parquet has a process of its own."""

from __future__ import annotations

from typing import ClassVar

from tidegate.readers.formats.factory import FormatFactory, Reading
from tidegate.readers.formats.options import TypedOptions
from tidegate.readers.objects.values import ObjectFormat
from tidegate.readers.s3.store import ObjectStore

__all__ = ["ParquetFactory"]


class ParquetFactory(FormatFactory[TypedOptions]):
    """Makes ``parquet``."""

    name: ClassVar[str] = "parquet"
    options = TypedOptions

    def create(self, options: TypedOptions, store: ObjectStore, reading: Reading) -> ObjectFormat:
        """See FormatFactory.create."""
        from tidegate.readers.formats.guarded.format import GuardedFormat
        from tidegate.readers.formats.parquet.format import ParquetFormat

        inner = ParquetFormat(
            store, options.event_time_unit, bad_records=options.bad_record_policy, read_times=reading.times
        )
        return GuardedFormat(inner, options.max_decompressed_bytes)
