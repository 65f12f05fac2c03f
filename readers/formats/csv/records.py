r"""Splits a block of CSV into records, and the records into columns of texts.

pyarrow.csv reads the values.  It neither reports the offset of a record, which errors and chunks need, nor reads
records of different widths at once.  So the records are found here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv as arrow_csv

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.formats.csv.options import CsvDialect
from tidegate.readers.formats.csv.quotes import ODD_QUOTES, Positions, quotes_of
from tidegate.readers.formats.line_ranges import LONGEST_LINE, LineBlock
from tidegate.readers.plain_text import utf8

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = bytes(range(33))
_FEED, _RETURN_FEED, _RETURN = b"\n", b"\r\n", b"\r"
CAREFUL_RECORDS = 1000  # in a batch of texts at most, where some have odd quotes
_FEW_RECORDS = 8  # of so many, each is looked at by itself
_LONE_RETURN = re.compile(rb"\r(?!\n)")


class CsvBlock(NamedTuple):
    r"""Consecutive whole records, and the offset of the first one.

    line_end: ``\n`` if only that ends lines, ``\r\n`` if this does, too, and ``\r`` if any line end does.
    """

    offset: int
    data: bytes
    line_end: bytes

    @property
    def lines(self) -> bytes:
        r"""The data, with ``\n`` for each ``\r`` that ends a line by itself, so that offsets stay the same."""
        returns = self.data.count(_RETURN) if self.line_end == _RETURN else 0
        has_lone = returns and returns > self.data.count(_RETURN_FEED)
        return _LONE_RETURN.sub(_FEED, self.data) if has_lone else self.data


def single_line_block(block: LineBlock) -> CsvBlock:
    """Return a block whose records are lines; a lone carriage return ends a line, too (Hadoop: LineReader)."""
    return CsvBlock(*block, _RETURN)


def multi_line_blocks(name: str, pieces: Iterable[bytes], dialect: CsvDialect) -> Iterator[CsvBlock]:
    """Yield all records of a text that arrives in pieces, about a piece at a time; values may hold line ends.

    The first line end in the text decides what ends all lines (uniVocity: LineSeparatorDetector).  A line feed after a
    carriage return ends a line in any case; uniVocity keeps the carriage return in a value without quotes.

    Raises CorruptDataError for a record of more than 256 MiB; errors of ``pieces`` pass.
    """
    offset, rest, line_end = 0, b"", None
    for piece in pieces:
        data = rest + piece
        if offset == 0 and data.startswith(_BYTE_ORDER_MARK):
            offset, data = len(_BYTE_ORDER_MARK), data[len(_BYTE_ORDER_MARK) :]
        line_end = line_end or _line_end_of(data)
        block = CsvBlock(offset, data, line_end or _FEED)
        feeds = quotes_of(dialect).record_ends(block.lines)
        length = int(feeds[-1]) + 1 if len(feeds) else 0
        if length:
            yield block._replace(data=data[:length])
        offset, rest = offset + length, data[length:]
        if len(rest) > LONGEST_LINE:
            raise CorruptDataError(f"{name}: the record at byte {offset} is longer than {LONGEST_LINE // 2**20} MiB")
    if rest:
        yield CsvBlock(offset, rest, line_end or _line_end_of(rest + b"\0") or _FEED)


def _line_end_of(data: bytes) -> bytes | None:
    """Return the first line end of a text; None: no line ends in it."""
    first = re.search(b"\r\n|\n|\r(?=.)", data, re.DOTALL)
    return first and first.group()


class CsvTexts(NamedTuple):
    """The values of some consecutive records.

    first: the index in the block of the first record.
    columns: the text of each record in a column; null: the record has no value there, or the text that stands for null.
    odd: whether each record has quotes of another dialect; then it has no values.
    """

    first: int
    columns: list[pa.StringArray]
    widths: Positions
    odd: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CsvRecords:
    r"""The records of a block, without empty records.

    starts, ends: the offsets of the records in the block, in bytes; ends exclusive.
    """

    name: str
    block: CsvBlock
    dialect: CsvDialect
    lines: bytes
    starts: Positions
    ends: Positions

    @classmethod
    def of(cls, name: str, block: CsvBlock, dialect: CsvDialect) -> CsvRecords:
        """Return the records of a block of the object with this name."""
        lines = block.lines
        feeds = quotes_of(dialect).record_ends(lines) if dialect.multi_line else _feeds_of(lines)
        starts, ends = np.concatenate(([0], feeds + 1)), np.concatenate((feeds, [len(lines)]))
        if _RETURN in lines:  # before a line end, it is a part of it
            before = np.frombuffer(_FEED + lines, np.uint8)
            for _ in range(1 + (block.line_end == _RETURN_FEED)):  # even before one that has its own
                ends = ends - (before[ends] == ord(_RETURN))
        out = starts == ends if dialect.multi_line else _blank_lines(lines, starts, ends)
        return cls(name, block, dialect, lines, starts[~out], ends[~out])

    def __len__(self) -> int:
        return len(self.starts)

    def without_first(self) -> CsvRecords:
        """Return the records without the first one."""
        return replace(self, starts=self.starts[1:], ends=self.ends[1:])

    def place(self, number: int) -> int:
        """Return the offset of a record in the decompressed object."""
        return self.block.offset + int(self.starts[number])

    def raw(self, number: int) -> bytes:
        """Return a record as it is in the object, without its line end, which may have a carriage return."""
        return self.block.data[self.starts[number] : self.ends[number]]

    def values(self, number: int) -> list[str | None]:
        """Return the values of one record; raises CorruptDataError for quotes of another dialect."""
        (texts,) = self.texts(range(self._width(number)), number, number + 1)
        if texts.odd.any():
            raise self._odd_quotes(number)
        return [column[0].as_py() for column in texts.columns]

    def texts(self, positions: Sequence[int], first: int, last: int) -> Iterator[CsvTexts]:
        """Yield the values at some positions of the records from ``first`` to ``last``, exclusive, in order.

        Raises CorruptDataError for quotes of another dialect if values may hold line ends: the records after them are
        not known then.
        """
        data, odd = self._joined(first, last), np.zeros(last - first, bool)
        if not quotes_of(self.dialect).are_closed(data):
            if last - first > CAREFUL_RECORDS:
                middle = (first + last) // 2
                yield from self.texts(positions, first, middle)
                yield from self.texts(positions, middle, last)
                return
            odd[self._odd(first, last) - first] = True
            if self.dialect.multi_line and odd.any():
                raise self._odd_quotes(first + int(odd.argmax()))
            data = b"".join([(b"" if is_odd else self._record(first + row)) + _FEED for row, is_odd in enumerate(odd)])
        data = quotes_of(self.dialect).doubled(data)
        widths, table = np.full(last - first, self._width(first)), None
        if not odd.any():
            with suppress(pa.ArrowInvalid):  # some records have another number of values
                table = self._table(data, positions)
        if table is None:
            data, widths = quotes_of(self._doubled).evened(data, max(positions, default=0) + 1)
            table = self._table(data, positions)
        if table.num_rows != last - first:
            place = self.place(first)
            raise CorruptDataError(
                f"{self.name}: {last - first} records from byte {place} on are read as {table.num_rows}"
            )
        columns = [self._nulled(table[f"f{position}"].combine_chunks()) for position in positions]
        yield CsvTexts(first, columns, widths, odd)

    def _odd(self, first: int, last: int) -> Positions:
        """Return the numbers of the records that have quotes of another dialect; most records have none."""
        are_closed = quotes_of(self.dialect).are_closed
        if last - first <= _FEW_RECORDS:
            odd = [number for number in range(first, last) if not are_closed(self._record(number) + _FEED)]
            return np.array(odd, np.int64)
        if are_closed(self._joined(first, last)):
            return np.zeros(0, np.int64)
        middle = (first + last) // 2
        return np.concatenate([self._odd(first, middle), self._odd(middle, last)])

    def _joined(self, first: int, last: int) -> bytes:
        """Return some records, each with a line end: without one, Arrow reads an empty value as a quoted one."""
        starts, ends, lines = self.starts[first:last], self.ends[first:last], self.lines
        if self.block.line_end != _FEED or _RETURN not in lines:
            data = np.frombuffer(lines, np.uint8)
            has_own = (data[ends - 1] == ord(_RETURN)).any()  # a carriage return at the end of a record
            line_ends = 1 + (data[ends[:-1]] == ord(_RETURN))  # their lengths
            if not has_own and (starts[1:] == ends[:-1] + line_ends).all():
                stop = lines.find(_FEED, ends[-1]) + 1
                return self._plain(lines[starts[0] : stop] if stop else lines[starts[0] :] + _FEED)
        return b"".join([self._plain(lines[start:end]) + _FEED for start, end in zip(starts, ends, strict=True)])

    def _plain(self, text: bytes) -> bytes:
        r"""Return a part of the block in UTF-8, with ``\n`` for each line end."""
        if self.block.line_end != _FEED and _RETURN in text:  # to replace nothing takes long
            text = text.replace(_RETURN_FEED, _FEED)
        return utf8(text)

    def _table(self, data: bytes, positions: Sequence[int]) -> pa.Table:
        """Return the columns of some records at some positions, named "f0", "f1" and so on; no positions: the first.

        Raises ArrowInvalid if records have different numbers of values.
        """
        names = [f"f{position}" for position in positions or [0]]  # to Arrow, no names are all columns
        if data.startswith(_BYTE_ORDER_MARK):
            data = b"\n" + data  # Arrow leaves out a byte order mark, but here the mark is a part of a value
        dialect = self.dialect
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, autogenerate_column_names=True
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=dialect.sep,
                quote_char=dialect.quote or False,
                double_quote=True,
                newlines_in_values=dialect.multi_line,
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

    @property
    def _doubled(self) -> CsvDialect:
        """The dialect of texts for Arrow."""
        return replace(self.dialect, escape=self.dialect.quote) if self.dialect.quote else self.dialect

    def _record(self, number: int) -> bytes:
        return self._plain(self.lines[self.starts[number] : self.ends[number]])

    def _width(self, number: int) -> int:
        return quotes_of(self.dialect).width(self._record(number))

    def _odd_quotes(self, number: int) -> CorruptDataError:
        noun = "record" if self.dialect.multi_line else "line"
        has_return = quotes_of(self.dialect).has_carriage_return(self._record(number))
        what = "has a carriage return in a value without quotes" if has_return else ODD_QUOTES
        return CorruptDataError(f"{self.name}: the {noun} at byte {self.place(number)} {what}")

    def _nulled(self, texts: pa.StringArray) -> pa.StringArray:
        """Return values with null for the text that stands for it."""
        null_value = self.dialect.null_value
        return pc.if_else(pc.equal(texts, null_value), pa.scalar(None, pa.string()), texts) if null_value else texts


def _feeds_of(text: bytes) -> Positions:
    return np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))


def _blank_lines(text: bytes, starts: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
    """Return which lines hold only blanks (Spark: filterCommentAndEmpty; Java: String.trim)."""
    first = np.frombuffer(text + b"\n", np.uint8)[starts]
    blank: npt.NDArray[np.bool_] = first <= _BLANKS[-1]
    for line in np.flatnonzero(blank):
        blank[line] = not text[starts[line] : ends[line]].strip(_BLANKS)
    return blank
