"""The factory of Avro."""

from __future__ import annotations

from typing import ClassVar

from tidegate.readers.formats.factory import FormatFactory, Reading
from tidegate.readers.formats.options import TypedOptions
from tidegate.readers.objects.values import ObjectFormat
from tidegate.readers.s3.store import ObjectStore

__all__ = ["AvroFactory"]


class AvroFactory(FormatFactory[TypedOptions]):
    """Makes ``avro``: object container files."""

    name: ClassVar[str] = "avro"
    options = TypedOptions

    def create(self, options: TypedOptions, store: ObjectStore, reading: Reading) -> ObjectFormat:
        """Return what cuts and reads the objects of a bucket."""
        from tidegate.readers.formats.avro.format import AvroFormat

        return AvroFormat(
            store,
            options.event_time_unit,
            bad_records=options.bad_record_policy,
            read_times=reading.times,
            most_bytes=options.max_decompressed_bytes,
        )
