"""The factory of binary files, which have no options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel

from tidegate.readers.formats.binary.format import MODIFICATION_TIME, BinaryFileFormat
from tidegate.readers.formats.factory import ColumnsBy, FormatFactory, Reading
from tidegate.readers.objects.values import ObjectFormat
from tidegate.readers.s3.store import ObjectStore

__all__ = ["BinaryFactory"]


class BinaryFactory(FormatFactory[BaseModel]):
    """Makes ``binaryFile``."""

    name: ClassVar[str] = "binaryFile"
    options = BaseModel
    time_columns: ClassVar[Sequence[str] | None] = (MODIFICATION_TIME,)

    def create(self, options: BaseModel, store: ObjectStore, reading: Reading) -> ObjectFormat:
        """See FormatFactory.create."""
        del options, reading
        return BinaryFileFormat(store)

    def columns_by(self, options: BaseModel) -> ColumnsBy:
        """Return "format": the columns are fixed."""
        del options
        return "format"
