"""The factory of JSON lines."""

from __future__ import annotations

from typing import ClassVar

from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.factory import FormatFactory, Reading
from tidegate.readers.formats.options import RecordOptions
from tidegate.readers.objects.values import ObjectFormat
from tidegate.readers.s3.store import ObjectStore

__all__ = ["JsonFactory"]


class JsonFactory(FormatFactory[RecordOptions]):
    """Makes ``json``: a JSON object per line.  In a column of timestamps, a number counts seconds."""

    name: ClassVar[str] = "json"
    options = RecordOptions
    parsed_units: ClassVar[tuple[TimeUnit, ...]] = ("iso8601", "s")

    def create(self, options: RecordOptions, store: ObjectStore, reading: Reading) -> ObjectFormat:
        """See FormatFactory.create."""
        from tidegate.readers.formats.json.format import JsonFormat

        return JsonFormat(
            store, options.event_time_unit, bad_records=options.bad_record_policy, read_times=reading.times
        )
