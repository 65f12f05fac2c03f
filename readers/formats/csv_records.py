"""Splits text of CSV into records, and the records into columns of texts, by pyarrow.csv.

What pyarrow.csv would read differently from Spark is found first.  Quotes enclose whole values, and each quote within
them is escaped; a quote in the middle of another value is a character.  Other quotes are *odd*: every parser reads
something else from them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.formats.lines import LONGEST_LINE, LineBlock
from tidegate.readers.formats.options import CsvDialect
from tidegate.readers.plain_text import utf8

ODD_QUOTES = "has quotes that are not of this dialect (quote and escape); format text and Spark's from_csv may read it"
"""What is wrong with a record that pyarrow.csv might read in another way than Spark, as a clause after "the line"."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = bytes(range(33))  # Java: String.trim
_NO_CHARACTER = b"\xff"  # is in no text in UTF-8
_LINE_ENDS = b"\r\n"
_BLANK_LINE = re.compile(rb"(?:\A|[\r\n])[\x00-\x09\x0b\x0c\x0e-\x20]+(?:\Z|[\r\n])")


class CsvRules:
    """The regular expressions of a dialect.

    record: a record, without its line end.
    open_record: a record that ends within quotes.
    quoted: a value in quotes that begins where a value may.
    """

    def __init__(self, dialect: CsvDialect) -> None:
        sep, quote, escape = (re.escape(text.encode()) for text in (dialect.sep, dialect.quote, dialect.escape))
        plain = b"[^" + sep + quote + b"\r\n][^" + sep + b"\r\n]*"
        opened = plain
        if quote:
            # Long values must not take a step of the expression for each byte.
            inner = b"[^" + quote + escape + b"]*"
            escaped = quote * 2 if escape == quote else escape + b"[\\s\\S]"
            opened = quote + inner + b"(?:" + escaped + inner + b")*"
            self.quoted = re.compile(b"(?<![^" + sep + b"\r\n])" + opened + quote)
        values = b"(?:" + plain + b"|" + opened + quote + b")?" if quote else b"(?:" + plain + b")?"
        self.record = re.compile(values + b"(?:" + sep + values + b")*")
        self.open_record = re.compile(b"(?:" + values + sep + b")*" + opened + escape + b"?")


@functools.lru_cache(maxsize=8)
def rules_of(dialect: CsvDialect) -> CsvRules:
    """Return the rules of a dialect; new ones take longer to make than a small object to read."""
    return CsvRules(dialect)


class CsvTexts(NamedTuple):
    """The values of the records of a block.

    columns: the text of each record in a column; null: the record has no value there, or the text that stands for null.
    widths: the numbers of values of records with another number than most, by row; 0: a record with odd quotes, which
        has no values.
    """

    rows: int
    columns: list[pa.StringArray]
    widths: dict[int, int]


@dataclass(frozen=True)
class CsvRecords:
    """The records of a block of whole records, without blank ones.

    bounds: the records' first bytes in the block, and the bytes after them; None: each line is a record.
    line_end: what becomes a line feed, also within quotes (uniVocity: LineSeparatorDetector).
    """

    name: str
    block: LineBlock
    dialect: CsvDialect
    bounds: Sequence[tuple[int, int]] | None = None
    line_end: bytes = b"\n"

    @functools.cached_property
    def records(self) -> Sequence[tuple[int, int]]:
        """The bounds of the records."""
        if self.bounds is not None:
            return self.bounds
        data = self.block.data
        text = np.frombuffer(data, np.uint8)
        breaks = np.flatnonzero((text == _LINE_ENDS[0]) | (text == _LINE_ENDS[1]))
        starts, ends = np.concatenate(([0], breaks + 1)), np.concatenate((breaks, [len(data)]))
        filled = starts < ends
        for row in np.flatnonzero(filled & (text[np.minimum(starts, len(data) - 1)] <= _BLANKS[-1])).tolist():
            filled[row] = bool(data[starts[row] : ends[row]].strip(_BLANKS))
        return [*zip(starts[filled].tolist(), ends[filled].tolist(), strict=True)]

    def place(self, row: int) -> int:
        """Return the offset of a record in the decompressed object."""
        return self.block.offset + self.records[row][0]

    def raw(self, row: int) -> bytes:
        """Return a record as it is in the object, without its line end."""
        start, end = self.records[row]
        return self.block.data[start:end]

    def split_first(self) -> tuple[int, CsvRecords]:
        """Return the offset of the first record, and the records after it."""
        start, end = self.records[0]
        data, bounds = self.block.data[end:], self.bounds
        moved = bounds and [(begin - end, stop - end) for begin, stop in bounds[1:]]
        block_left = LineBlock(self.block.offset + end, data)
        return self.block.offset + start, CsvRecords(self.name, block_left, self.dialect, moved, self.line_end)

    def first_values(self) -> list[str | None] | None:
        """Return the values of the first record, or None without one.

        Raises CorruptDataError for odd quotes.
        """
        return self._values(*self.records[0]) if self.records else None

    def values(self, row: int) -> list[str | None]:
        """Return the values of a record without odd quotes."""
        return self._values(*self.records[row])

    def texts(self, positions: Sequence[int], width: int | None) -> CsvTexts:
        """Return the values at some positions.

        width: the usual number of values; None: that of the first record.
        """
        # pyarrow.csv takes no text without a record.
        if not (self.block.data.lstrip(_BLANKS) if self.bounds is None else self.bounds):
            return CsvTexts(0, [pa.nulls(0, pa.string())] * len(positions), {})
        if self._is_plain(width):
            table, others = self._table(self.block.data, positions, width)
            if not others:
                return CsvTexts(table.num_rows, self._columns(table, positions), {})
        return self._sorted(positions, width)

    def _values(self, start: int, end: int) -> list[str | None]:
        record = self.block.data[start:end]
        if not rules_of(self.dialect).record.fullmatch(record):
            noun = "record" if self.dialect.multi_line else "line"
            raise CorruptDataError(f"{self.name}: the {noun} at byte {self.block.offset + start} {ODD_QUOTES}")
        table, _ = self._table(record, None, None)
        return [column[0].as_py() for column in self._columns(table, range(table.num_columns))]

    def _is_plain(self, width: int | None) -> bool:
        """Return whether all records have quotes of this dialect, and pyarrow.csv leaves out the blank ones."""
        if self.bounds is not None:
            return True
        data, dialect = self.block.data, self.dialect
        if (width in {1, None} or dialect.sep <= " ") and _BLANK_LINE.search(data):
            return False
        quote, escape = dialect.quote.encode(), dialect.escape.encode()
        if not quote or quote not in data:
            return True
        is_doubled = quote == escape
        if not is_doubled:  # what is escaped neither opens nor closes
            data = data.replace(escape * 2, _NO_CHARACTER * 2).replace(escape + quote, _NO_CHARACTER * 2)
        text = np.frombuffer(b"\n" + data + b"\n", np.uint8)
        quotes = np.flatnonzero(text == quote[0])
        beside = np.zeros(256, bool)
        beside[[*_LINE_ENDS, ord(dialect.sep), *quote * is_doubled]] = True
        if len(quotes) % 2 or not beside[text[quotes[::2] - 1]].all() or not beside[text[quotes[1::2] + 1]].all():
            return False
        breaks = np.flatnonzero((text == _LINE_ENDS[0]) | (text == _LINE_ENDS[1]))
        return bool((np.searchsorted(quotes, breaks) % 2 == 0).all())

    def _sorted(self, positions: Sequence[int], width: int | None) -> CsvTexts:
        """Return the values, whatever records there are: those of each width are read together."""
        lines, record = [*map(self.raw, range(len(self.records)))], rules_of(self.dialect).record
        quote = self.dialect.quote.encode()
        widths = {
            row: 0
            for row, line in enumerate(lines)
            if self.bounds is None and quote and quote in line and not record.fullmatch(line)
        }
        left = [row for row in range(len(lines)) if row not in widths]
        tables, order = [], []
        groups: dict[int | None, list[int]] = {width: left} if left else {}
        while groups:
            wanted, rows = groups.popitem()
            table, others = self._table(b"\n".join([lines[row] for row in rows]), positions, wanted)
            for index, actual in others.items():
                widths[rows[index]] = actual
                groups.setdefault(actual, []).append(rows[index])
            tables.append(table)
            order += [row for index, row in enumerate(rows) if index not in others]
        places: list[int | None] = [None] * len(lines)
        for place, row in enumerate(order):
            places[row] = place
        if not tables:
            return CsvTexts(len(lines), [pa.nulls(len(lines), pa.string())] * len(positions), widths)
        table = pa.concat_tables(tables).take(pa.array(places, pa.int64()))
        return CsvTexts(len(lines), self._columns(table, positions), widths)

    def _columns(self, table: pa.Table, positions: Sequence[int]) -> list[pa.StringArray]:
        """Return the columns at some positions, with null for the text that stands for null."""
        columns = [table[f"f{position}"].combine_chunks() for position in positions]
        null = self.dialect.null_value
        return [
            pc.if_else(pc.equal(text, null), pa.scalar(None, pa.string()), text) if null else text for text in columns
        ]

    def _table(
        self, data: bytes, positions: Sequence[int] | None, width: int | None
    ) -> tuple[pa.Table, dict[int, int]]:
        """Return the columns at some positions of the records with ``width`` values, named "f0", "f1" and so on.

        positions: None: all.
        width: None: that of the first record.

        Also returns the numbers of values of the other records, by their places among all.
        """
        others: dict[int, int] = {}

        def other(row: arrow_csv.InvalidRow) -> str:
            others[row.number - 1] = row.actual_columns
            return "skip"

        data = self._for_arrow(data)
        dialect = self.dialect
        most = data.count(dialect.sep.encode()) + 1 if positions is None else 0
        wanted = [f"f{position}" for position in positions or range(most or 1)]  # to Arrow, no names are all columns
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(
                use_threads=False,
                block_size=len(data) + 1,
                column_names=None if width is None else [f"f{position}" for position in range(width)],
                autogenerate_column_names=width is None,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=dialect.sep,
                quote_char=dialect.quote or False,
                double_quote=True,
                newlines_in_values=dialect.multi_line,
                invalid_row_handler=other,
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=wanted if positions is not None else None,
                include_missing_columns=True,
                column_types=dict.fromkeys(wanted, pa.string()),
                check_utf8=False,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=dialect.null_value == "",
            ),
        )
        return table, others

    def _for_arrow(self, data: bytes) -> bytes:
        """Return whole records in UTF-8, with a doubled quote for each escaped one."""
        data = utf8(data)
        if self.line_end != b"\n":
            data = data.replace(self.line_end, b"\n")
        quote, escape = self.dialect.quote.encode(), self.dialect.escape.encode()
        if quote and quote != escape and escape in data:
            quoted = rules_of(self.dialect).quoted

            def doubled(value: re.Match[bytes]) -> bytes:
                whole = value.group()
                within = whole[1:-1].replace(escape * 2, _NO_CHARACTER).replace(escape + quote, quote * 2)
                return quote + within.replace(_NO_CHARACTER, escape) + quote if escape in whole else whole

            if self.dialect.multi_line:
                data = quoted.sub(doubled, data)
            else:  # most lines have no escape
                lines = re.compile(b"(?m)^.*" + re.escape(escape) + b".*$")
                data = lines.sub(lambda line: quoted.sub(doubled, line.group()), data)
        if data.startswith(_BYTE_ORDER_MARK):
            data = b"\n" + data  # Arrow leaves out a byte order mark, but here the mark is a part of a value
        return data + b"\n"  # without a line end, Arrow reads an empty value as a quoted one


def multi_line_records(name: str, pieces: Iterable[bytes], dialect: CsvDialect) -> Iterator[CsvRecords]:
    r"""Yield all records of a text that arrives in pieces, about a piece at a time; values may hold line ends.

    Raises CorruptDataError for odd quotes, because the records after them are not known, and for a record of more than
    256 MiB; errors of ``pieces`` pass.
    """
    rules, data, offset, line_end = rules_of(dialect), b"", 0, b""
    coming = iter(pieces)
    is_last = False
    while not is_last:
        piece = next(coming, b"")
        is_last = not piece
        data += piece
        if offset == 0 and data.startswith(_BYTE_ORDER_MARK):
            offset, data = len(_BYTE_ORDER_MARK), data[len(_BYTE_ORDER_MARK) :]
        if not line_end and (first := re.search(rb"\r\n|\n|\r(?=[\s\S])", data)):
            line_end = first.group()
        bounds, at, is_odd = _bounds(rules, data, is_last=is_last)
        if is_odd:
            raise CorruptDataError(f"{name}: the record at byte {offset + at} {ODD_QUOTES}")
        if bounds:
            yield CsvRecords(name, LineBlock(offset, data[:at]), dialect, bounds, line_end or b"\n")
        offset, data = offset + at, data[at:]
        if len(data) > LONGEST_LINE:
            raise CorruptDataError(f"{name}: the record at byte {offset} is longer than {LONGEST_LINE // 2**20} MiB")


def _bounds(rules: CsvRules, data: bytes, *, is_last: bool) -> tuple[list[tuple[int, int]], int, bool]:
    """Return the bounds of whole records, the place after them, and whether odd quotes follow there."""
    bounds: list[tuple[int, int]] = []
    at = 0
    while at < len(data):
        match = rules.record.match(data, at)
        end = at if match is None else match.end()
        if not is_last and (end == len(data) or (data.endswith(b"\r") and end == len(data) - 1)):
            break
        if end < len(data) and data[end] not in _LINE_ENDS:
            return bounds, at, is_last or rules.open_record.fullmatch(data, at) is None
        if end > at:
            bounds.append((at, end))
        at = end + 1
    return bounds, at, False
