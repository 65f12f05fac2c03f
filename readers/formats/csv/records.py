"""Reads the records of a block of CSV into columns of texts, by pyarrow.csv."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.formats.csv.marks import ODD_QUOTES, Marks, Positions, marks_of, whole_records
from tidegate.readers.formats.csv.options import CsvDialect
from tidegate.readers.formats.line_ranges import LONGEST_LINE
from tidegate.readers.plain_text import utf8

__all__ = ["CsvBlock", "CsvRecords", "CsvTexts", "multi_line_blocks"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class CsvBlock(NamedTuple):
    r"""Consecutive whole records, and the offset of the first one.

    unifies_lines: a ``\r\n`` in a value is read as ``\n``.
    """

    offset: int
    data: bytes
    unifies_lines: bool = False


def multi_line_blocks(name: str, pieces: Iterable[bytes], dialect: CsvDialect) -> Iterator[CsvBlock]:
    r"""Yield all records of a text that arrives in pieces, about a piece at a time; values may hold line ends.

    If the first line ends with ``\r\n``, this is read as ``\n`` in all values (uniVocity: LineSeparatorDetector).

    Raises CorruptDataError for a record of more than 256 MiB; errors of ``pieces`` pass.
    """
    offset, rest, unifies_lines = 0, b"", None
    for piece in pieces:
        data = rest + piece
        if offset == 0 and data.startswith(_BYTE_ORDER_MARK):
            offset, data = len(_BYTE_ORDER_MARK), data[len(_BYTE_ORDER_MARK) :]
        if unifies_lines is None and (first := data.find(b"\n")) >= 0:
            unifies_lines = data[:first].endswith(b"\r")
        length = whole_records(data, dialect)
        if length:
            yield CsvBlock(offset, data[:length], bool(unifies_lines))
        offset, rest = offset + length, data[length:]
        if len(rest) > LONGEST_LINE:
            raise CorruptDataError(f"{name}: the record at byte {offset} is longer than {LONGEST_LINE // 2**20} MiB")
    if rest:
        yield CsvBlock(offset, rest, bool(unifies_lines))


class CsvTexts(NamedTuple):
    """The values of some consecutive records.

    first: the index in the block of the first record.
    columns: the text of each record in a column; null: the record has no value there, or the text that stands for null.
    widths: the number of values of each record; 0: it has quotes of another dialect.
    """

    first: int
    columns: list[pa.StringArray]
    widths: Positions


@dataclass(frozen=True, slots=True)
class CsvRecords:
    """The records of a block of the object with this name, without empty records."""

    name: str
    block: CsvBlock
    dialect: CsvDialect
    marks: Marks

    @classmethod
    def of(cls, name: str, block: CsvBlock, dialect: CsvDialect) -> CsvRecords:
        """Return the records of a block."""
        return cls(name, block, dialect, marks_of(block.data, dialect))

    def __len__(self) -> int:
        return len(self.marks.starts)

    def without_first(self) -> CsvRecords:
        """Return the records without the first one."""
        return CsvRecords(self.name, self.block, self.dialect, Marks(*(mark[1:] for mark in self.marks)))

    def place(self, number: int) -> int:
        """Return the offset of a record in the decompressed object."""
        return self.block.offset + int(self.marks.starts[number])

    def raw(self, number: int) -> bytes:
        """Return a record as it is in the object, without its line end."""
        return self.block.data[self.marks.starts[number] : self.marks.ends[number]]

    def values(self, number: int) -> list[str | None]:
        """Return the values of one record; raises CorruptDataError for quotes of another dialect."""
        width = self.marks.widths[number]
        if not width:
            raise self._odd_quotes(number)
        return [column[0].as_py() for column in self._table(np.array([number]), range(width)).columns]

    def texts(self, positions: Sequence[int], first: int, last: int) -> CsvTexts:
        """Return the values at some positions of the records from ``first`` to ``last``, exclusive, in order.

        Raises CorruptDataError for quotes of another dialect if values may hold line ends: the records after them are
        not known then.
        """
        numbers, widths = np.arange(first, last), self.marks.widths[first:last]
        if self.dialect.multi_line and not widths.all():
            raise self._odd_quotes(first + int(widths.argmin()))
        if (widths == widths[0]).all():
            table = self._table(numbers, positions)
        else:  # Arrow reads only records of the same width together
            parts = [self._table(numbers[widths == width], positions) for width in np.unique(widths)]
            table = pa.concat_tables(parts).take(np.argsort(np.argsort(widths, kind="stable")))
        columns = [self._nulled(table[_name(position)].combine_chunks()) for position in positions]
        return CsvTexts(first, columns, widths)

    def _table(self, numbers: Positions, positions: Sequence[int]) -> pa.Table:
        """Return the columns at some positions of records with the same number of values; no positions: the first."""
        names = [_name(position) for position in positions or [0]]  # to Arrow, no names are all columns
        if not self.marks.widths[numbers[0]]:
            return pa.table([pa.nulls(len(numbers), pa.string())] * len(names), names)
        data = self._joined(numbers)
        if data.startswith(_BYTE_ORDER_MARK):
            data = b"\n" + data  # Arrow leaves out a byte order mark, but here the mark is a part of a value
        dialect = self.dialect
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, autogenerate_column_names=True
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=dialect.sep,
                quote_char=dialect.quote or False,
                double_quote=True,
                newlines_in_values=dialect.multi_line,
                invalid_row_handler=lambda _: "skip",
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=names,
                include_missing_columns=True,
                column_types=dict.fromkeys(names, pa.string()),
                check_utf8=False,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=dialect.null_value == "",
            ),
        )
        if table.num_rows != len(numbers):
            place = self.place(int(numbers[0]))
            raise CorruptDataError(
                f"{self.name}: {len(numbers)} records from byte {place} on are read as {table.num_rows}"
            )
        return table

    def _joined(self, numbers: Positions) -> bytes:
        """Return some records in UTF-8, each with a line end: without one, Arrow reads an empty value as a quoted one.

        Records that are beside each other are taken as they are.
        """
        starts, ends = self.marks.starts[numbers], self.marks.ends[numbers]
        data = self.block.data
        if (starts[1:] - ends[:-1] <= len(b"\r\n")).all():
            joined = data[starts[0] : ends[-1]] + b"\n"
        else:
            joined = b"".join([data[start:end] + b"\n" for start, end in zip(starts, ends, strict=True)])
        return utf8(joined.replace(b"\r\n", b"\n") if self.block.unifies_lines else joined)

    def _odd_quotes(self, number: int) -> CorruptDataError:
        noun = "record" if self.dialect.multi_line else "line"
        return CorruptDataError(f"{self.name}: the {noun} at byte {self.place(number)} {ODD_QUOTES}")

    def _nulled(self, texts: pa.StringArray) -> pa.StringArray:
        """Return values with null for the text that stands for it."""
        null_value = self.dialect.null_value
        return pc.if_else(pc.equal(texts, null_value), pa.scalar(None, pa.string()), texts) if null_value else texts


def _name(position: int) -> str:
    """Return Arrow's name of a column."""
    return f"f{position}"
