"""The factory of ORC.  Damaged objects may end the process that decodes, so ORC has a process of its own."""

from __future__ import annotations

from typing import ClassVar

from tidegate.readers.formats.factory import FormatFactory, Reading
from tidegate.readers.formats.options import TypedOptions
from tidegate.readers.objects.values import ObjectFormat
from tidegate.readers.s3.store import ObjectStore

__all__ = ["OrcFactory"]


class OrcFactory(FormatFactory[TypedOptions]):
    """Makes ``orc``."""

    name: ClassVar[str] = "orc"
    options = TypedOptions

    def create(self, options: TypedOptions, store: ObjectStore, reading: Reading) -> ObjectFormat:
        """See FormatFactory.create."""
        from tidegate.readers.formats.guarded.format import GuardedFormat
        from tidegate.readers.formats.orc.format import OrcFormat

        inner = OrcFormat(
            store, options.event_time_unit, bad_records=options.bad_record_policy, read_times=reading.times
        )
        return GuardedFormat(inner, options.max_decompressed_bytes)
