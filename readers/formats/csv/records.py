r"""Splits a block of CSV into records, and the records into columns of texts.

pyarrow.csv reads plain blocks at once (see csv.tokens).  Other blocks, and those with records of different widths, are
split record by record, by Spark's rules.

Existing parsers do not suffice.  pyarrow.csv 26 refuses a record with fewer values than columns, and has no option for
comments.  Python's csv module has none either, and returns Python objects.  Neither reports the offset of a record,
which errors and chunks need.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.formats.csv.tokens import CsvTokenizer, Positions, Tokens, blank_lines
from tidegate.readers.formats.line_ranges import LONGEST_LINE, LineBlock
from tidegate.readers.plain_text import unified, utf8

__all__ = ["CsvBlock", "CsvRecords", "CsvTexts", "multi_line_blocks", "single_line_block"]

CAREFUL_BYTES = 64 << 10
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = "".join(map(chr, range(33)))


class CsvBlock(NamedTuple):
    r"""Consecutive whole records, and the offset of the first one.

    line_ends: the regular expression of the line ends, which the parser sees as ``\n``.
    """

    offset: int
    data: bytes
    line_ends: bytes

    @property
    def text(self) -> bytes:
        r"""The data, with ``\n`` for each line end."""
        if self.line_ends == _ANY_END:
            return unified(self.data)
        return self.data.replace(b"\r\n", b"\n") if self.line_ends == _RETURN_FEED else self.data


_FEED, _RETURN_FEED, _ANY_END = b"\n", b"\r?\n", b"\r\n|\r|\n"


def single_line_block(block: LineBlock) -> CsvBlock:
    """Return a block whose records are lines; a lone carriage return ends a line, too (Hadoop: LineReader)."""
    return CsvBlock(*block, _ANY_END)


def multi_line_blocks(name: str, pieces: Iterable[bytes], tokenizer: CsvTokenizer) -> Iterator[CsvBlock]:
    """Yield all records of a text that arrives in pieces, about a piece at a time; values may hold line ends.

    The first line end in the text decides what ends all lines (uniVocity: LineSeparatorDetector).

    Raises CorruptDataError for a record of more than 256 MiB; errors of ``pieces`` pass.
    """
    offset, rest, line_ends = 0, b"", None
    for piece in pieces:
        data = rest + piece
        if offset == 0 and data.startswith(_BYTE_ORDER_MARK):
            offset, data = len(_BYTE_ORDER_MARK), data[len(_BYTE_ORDER_MARK) :]
        line_ends = line_ends or _line_ends_of(data)
        block = CsvBlock(offset, data, line_ends or _FEED)
        length = _whole_records(block, tokenizer)
        if length:
            yield block._replace(data=data[:length])
        offset, rest = offset + length, data[length:]
        if len(rest) > LONGEST_LINE:
            raise CorruptDataError(f"{name}: the record at byte {offset} is longer than {LONGEST_LINE // 2**20} MiB")
    if rest:
        yield CsvBlock(offset, rest, line_ends or _line_ends_of(rest + b"\0") or _FEED)


def _line_ends_of(data: bytes) -> bytes | None:
    """Return the line end of a text, by its first line; None: no line ends in it."""
    first = re.search(b"\r\n|\n|\r(?=.)", data, re.DOTALL)
    return first and {b"\n": _FEED, b"\r\n": _RETURN_FEED, b"\r": _ANY_END}[first.group()]


def _whole_records(block: CsvBlock, tokenizer: CsvTokenizer) -> int:
    """Return how many bytes at the start of the data are whole records, whatever follows."""
    text = block.text
    ended = tokenizer.whole_records(text)
    if len(text) == len(block.data):
        return ended
    # The text and the data have the same number of line ends up to there.
    before = islice(re.finditer(block.line_ends, block.data), text.count(b"\n", 0, ended))
    last = deque(before, maxlen=1)
    return last[0].end() if last else 0


class CsvTexts(NamedTuple):
    """The values of some consecutive records.

    first: the index in the block of the first record.
    columns: the text of each record in a column; null: the record has no value there, or the text that stands for null.
    widths: the number of values of each record.
    """

    first: int
    columns: list[pa.StringArray]
    widths: Positions


@dataclass(frozen=True)
class CsvRecords:
    r"""The records of a block, without comments and empty records.

    text: the block in UTF-8, with ``\n`` as line ends.
    starts, ends: the offsets of the records in the text, in bytes; ends exclusive.
    tokens: the values of the records, if finding the records gave them; None: it did not.
    """

    block: CsvBlock
    tokenizer: CsvTokenizer
    text: bytes
    starts: Positions
    ends: Positions
    tokens: Sequence[Tokens] | None = None

    @classmethod
    def of(cls, block: CsvBlock, tokenizer: CsvTokenizer) -> CsvRecords:
        """Return the records of a block."""
        text = utf8(block.text, tokenizer.dialect.encoding)
        if not tokenizer.dialect.multi_line:
            return cls(block, tokenizer, text, *_lines(text, tokenizer.dialect.comment.encode()))
        spans = tokenizer.plain_records(text)
        if spans is not None:
            return cls(block, tokenizer, text, *spans)
        split = [*tokenizer.records(text.decode("latin-1"))]
        starts, ends = (np.array([record[number] for record in split], np.int64) for number in (0, 1))
        return cls(block, tokenizer, text, starts, ends, [record[2] for record in split])

    def __len__(self) -> int:
        return len(self.starts)

    def without_first(self) -> CsvRecords:
        """Return the records without the first one."""
        tokens = None if self.tokens is None else self.tokens[1:]
        return CsvRecords(self.block, self.tokenizer, self.text, self.starts[1:], self.ends[1:], tokens)

    def values(self, number: int) -> list[str | None]:
        """Return the values of one record."""
        return [token and token.encode("latin-1").decode() for token in self._tokens(number)]

    def place(self, number: int) -> int:
        """Return the offset of a record in the decompressed object."""
        return self.block.offset + self._raw_span(number)[0]

    def raw(self, number: int) -> bytes:
        """Return a record as it is in the object, without its line end."""
        start, end = self._raw_span(number)
        return self.block.data[start:end]

    def texts(self, positions: Sequence[int], first: int, last: int) -> Iterator[CsvTexts]:
        """Yield the values at some positions of the records from ``first`` to ``last``, exclusive, in order."""
        quick = None if self.tokens is not None else self._quick(positions, first, last)
        size = int(self.ends[last - 1] - self.starts[first])
        if quick is not None:
            yield quick
        elif self.tokens is None and size > CAREFUL_BYTES and last - first > 1:
            # One odd record must not slow down all the others.
            count = min(1 + size // CAREFUL_BYTES, last - first)
            cuts = [first + (last - first) * number // count for number in range(count + 1)]
            for begin, end in pairwise(cuts):
                yield self._quick(positions, begin, end) or self._careful(positions, begin, end)
        else:
            yield self._careful(positions, first, last)

    def _quick(self, positions: Sequence[int], first: int, last: int) -> CsvTexts | None:
        """Return the values as pyarrow.csv reads them; None: Spark might read other values."""
        starts, ends = self.starts[first:last], self.ends[first:last]
        # At the end of the text, Arrow reads an empty value as a quoted one.  So a line end must follow.
        if (starts[1:] == ends[:-1] + 1).all():
            data = self.text[starts[0] : ends[-1] + 1]
            if ends[-1] == len(self.text):
                data += b"\n"
        else:
            data = b"".join([self.text[start:end] + b"\n" for start, end in zip(starts, ends, strict=True)])
        # Arrow leaves out a byte order mark, but here the mark is a part of a value.
        if not self.tokenizer.is_plain(data) or data.startswith(_BYTE_ORDER_MARK):
            return None
        width = len(self._tokens(first))
        read = {str(position) for position in positions if position < width} or {"0"}
        dialect = self.tokenizer.dialect
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(data),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(data) + 1, column_names=[str(number) for number in range(width)]
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=dialect.sep,
                    quote_char=dialect.quote or False,
                    double_quote=dialect.escape == dialect.quote,
                    newlines_in_values=dialect.multi_line,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=[*read],
                    column_types=dict.fromkeys(read, pa.string()),
                    check_utf8=False,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=dialect.null_value == "",
                ),
            )
        except pa.ArrowInvalid:  # records have different numbers of values
            return None
        rows = last - first
        if table.num_rows != rows:  # Arrow took a line end for a part of a value
            return None
        columns = [
            self._cleared(table[str(position)].combine_chunks()) if position < width else pa.nulls(rows, pa.string())
            for position in positions
        ]
        return CsvTexts(first, columns, np.full(rows, width))

    def _careful(self, positions: Sequence[int], first: int, last: int) -> CsvTexts:
        records = [self._tokens(number) for number in range(first, last)]
        columns = [
            pa.array([_value(tokens, position) for tokens in records], pa.binary()).view(pa.string())
            for position in positions
        ]
        return CsvTexts(first, [self._nulled(column) for column in columns], np.array([*map(len, records)], np.int64))

    def _cleared(self, texts: pa.StringArray) -> pa.StringArray:
        """Return values without the blanks around them.

        No value is quoted here: the tokenizer calls no text with quotes plain if blanks are left out.
        """
        dialect = self.tokenizer.dialect
        if dialect.ignore_leading_white_space:
            texts = pc.utf8_ltrim(texts, _BLANKS)
        if dialect.ignore_trailing_white_space:
            texts = pc.utf8_rtrim(texts, _BLANKS)
        if dialect.ignore_leading_white_space or dialect.ignore_trailing_white_space:
            texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        return self._nulled(texts) if dialect.null_value else texts

    def _nulled(self, texts: pa.StringArray) -> pa.StringArray:
        """Return values with null for the text that stands for it."""
        return pc.if_else(pc.equal(texts, self.tokenizer.dialect.null_value), pa.scalar(None, pa.string()), texts)

    def _tokens(self, number: int) -> Tokens:
        if self.tokens is not None:
            return self.tokens[number]
        line = self.text[self.starts[number] : self.ends[number]].decode("latin-1")
        return self.tokenizer.record(line, 0)[0]

    @cached_property
    def _raw_lines(self) -> tuple[Positions, Positions, Positions]:
        """Return the line feeds in the text, and the start and the end of each line end in the data."""
        feeds = np.flatnonzero(np.frombuffer(self.text, np.uint8) == ord("\n"))
        spans = [match.span() for match in re.finditer(self.block.line_ends, self.block.data)]
        begins, ends = np.array(spans, np.int64).reshape(-1, 2).T
        return feeds, begins, ends

    def _raw_span(self, number: int) -> tuple[int, int]:
        """Return the start and the end of a record in the data."""
        start, end = int(self.starts[number]), int(self.ends[number])
        if self.text is self.block.data:  # equal lengths alone may be a coincidence
            return start, end
        # The text and the data have the same number of lines before a record, in any encoding and with any line ends.
        feeds, begins, ends = self._raw_lines
        before, within = np.searchsorted(feeds, (start, end))
        return (
            int(ends[before - 1]) if before else 0,
            int(begins[within]) if within < len(begins) else len(self.block.data),
        )


def _value(tokens: Tokens, position: int) -> bytes | None:
    token = tokens[position] if position < len(tokens) else None
    return None if token is None else token.encode("latin-1")


def _lines(text: bytes, comment: bytes) -> tuple[Positions, Positions]:
    """Return the starts and the ends of lines, without comments and blank lines (Spark: filterCommentAndEmpty)."""
    feeds = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    starts, ends = np.concatenate(([0], feeds + 1)), np.concatenate((feeds, [len(text)]))
    out = blank_lines(text, starts, ends)
    if comment:
        out |= np.frombuffer(text + b"\n", np.uint8)[starts] == comment[0]
    return starts[~out], ends[~out]
