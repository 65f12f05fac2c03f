"""The registry of formats.  A new format is a folder beside this module, with a factory in this list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from tidegate.readers.formats.avro.factory import AvroFactory
from tidegate.readers.formats.binary.factory import BinaryFactory
from tidegate.readers.formats.csv.factory import CsvFactory, CsvOptions
from tidegate.readers.formats.factory import FormatFactory
from tidegate.readers.formats.json.factory import JsonFactory
from tidegate.readers.formats.options import RecordOptions, TypedOptions
from tidegate.readers.formats.orc.factory import OrcFactory
from tidegate.readers.formats.parquet.factory import ParquetFactory
from tidegate.readers.formats.text.factory import TextFactory, TextOptions

__all__ = ["FACTORIES", "FormatName", "FormatOptions", "formats_with"]

FormatName: TypeAlias = Literal["parquet", "json", "avro", "orc", "csv", "text", "binaryFile"]

_FACTORIES: tuple[FormatFactory[Any], ...] = (
    ParquetFactory(),
    JsonFactory(),
    AvroFactory(),
    OrcFactory(),
    CsvFactory(),
    TextFactory(),
    BinaryFactory(),
)
FACTORIES: Mapping[str, FormatFactory[Any]] = {factory.name: factory for factory in _FACTORIES}
"""The factory of each format, by its name."""


class FormatOptions(TypedOptions, CsvOptions, TextOptions, RecordOptions):
    """The options of all formats; a query may set the options of its format."""


def formats_with(option: str) -> list[str]:
    """Return the names of the formats that have an option; empty: no format has it."""
    return [name for name, factory in FACTORIES.items() if option in factory.options.model_fields]
