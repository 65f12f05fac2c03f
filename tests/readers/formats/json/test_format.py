"""JSON lines, compared with json.loads of every line."""

import pyarrow as pa
import pytest

from tests.readers.formats.json.texts import BAD, SCHEMA, read_text, records_of
from tests.support.objects.lab import BOM, COMPRESSED, Memory, read_all
from tidegate.errors import BadRecordError, CorruptDataError, ObjectGoneError
from tidegate.readers.formats import row_groups
from tidegate.readers.formats.json import lines as json_lines
from tidegate.readers.formats.json.format import JsonFormat
from tidegate.readers.formats.json.lines import JsonLines
from tidegate.readers.formats.line_ranges import LineBlock, fetched_ahead, range_blocks, stream_blocks


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("tidegate.readers.formats.line_ranges.LONGEST_LINE", 2**20)
    memory = Memory(b"{}\n" + b"x" * 2**21)
    fetch = lambda *span: memory.fetch(memory.object, *span)  # noqa: E731
    with pytest.raises(CorruptDataError, match=r"^k: the line at byte 3 is longer than 1 MiB$"):
        [*range_blocks("k", fetch, memory.object.size, 0, memory.object.size, block_bytes=1000)]
    with pytest.raises(CorruptDataError, match="the line at byte 3 is longer than 1 MiB"):
        [*stream_blocks("k", [memory.content[:1000], memory.content[1000:]])]


def test_fetching_ahead_changes_nothing_but_the_time():
    asked = []

    def blocks(error=None):
        for number in range(5):
            asked.append(number)
            yield LineBlock(number, b"{}\n")
        if error:
            raise error

    assert [*fetched_ahead(blocks())] == [*blocks()]
    with pytest.raises(ObjectGoneError):
        [*fetched_ahead(blocks(ObjectGoneError("gone")))]
    asked.clear()
    ahead = fetched_ahead(blocks())
    next(ahead)
    ahead.close()
    assert asked == [0, 1]


def test_what_cannot_be_decompressed_is_refused():
    for suffix, compress in COMPRESSED.items():
        whole = compress(b'{"whole":1}\n' * 1000)
        for content in (whole[:-9], b"no " + whole, whole[: len(whole) // 2]):
            memory = Memory(content, f"x{suffix}")
            with pytest.raises(CorruptDataError, match=f"^x{suffix}: cannot decompress it by"):
                read_all(JsonFormat(memory), memory.object, SCHEMA)
    memory = Memory(b"x", "x.json.snappy")
    with pytest.raises(CorruptDataError, match=r"x\.json\.snappy: cannot decompress it; readable are \.gz"):
        JsonFormat(memory).survey(memory.object, None)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("before", [b"", b'{"text":"secret"}\r\n \n'])
@pytest.mark.parametrize("after", [b"", b"\n", b'\n{"text":"secret"}\n'])
def test_a_malformed_line_is_named_by_its_place_and_never_shown(bad, before, after):
    if not before and bad.startswith(BOM):
        return
    with pytest.raises(
        BadRecordError, match=rf"^a/b\.json: the line at byte {len(before)} is no JSON object"
    ) as raised:
        read_text(before + bad + after, SCHEMA)
    assert "secret" not in str(raised.value)
    assert "whole" not in str(raised.value)


def test_a_byte_order_mark_carriage_returns_and_blank_lines_are_no_part_of_values():
    rows = read_text(BOM + b'{"text":"a"}\r\n \n\r\n\t{"text":"b"} \n{"text":"c"}', SCHEMA)
    assert [row["text"] for row in rows] == ["a", "b", "c"]


def test_values_that_go_on_in_the_next_line_are_not_joined():
    for text in (
        b'{"whole":1}{"whole":2}\n{"whole":\n3}\n',
        b'{"whole":1}{"whole":2}\n{"inner":\n{"x":"1"}}\n',
        b'{"whole":\n1}\n',
        b'{"inner":{"x":"1"}\n}{}\n',
    ):
        with pytest.raises(BadRecordError, match="is no JSON object"):
            read_text(text, SCHEMA)


def test_a_batch_is_bounded_however_little_text_makes_it(monkeypatch):
    for module in (json_lines, row_groups):
        monkeypatch.setattr(module, "BATCH_BYTES", 100_000)
    quick, made = JsonLines._quick, []
    monkeypatch.setattr(JsonLines, "_quick", lambda *given: made.append(quick(*given)) or made[-1])
    wide = pa.schema([(f"c{number}", pa.int64()) for number in range(50)])
    nested = pa.schema([("l", pa.list_(pa.struct(list(wide))))])
    for schema, text in [
        (wide, b"{}\n" * 5000),
        (nested, b'{"l":[{},{},{}]}\n' * 500),
        (SCHEMA, b'{"text":"' + b"x" * 1000 + b'"}\n'),
    ]:
        batches = [*JsonLines(schema).batches(records_of(schema), LineBlock(0, text))]
        assert sum(batch.num_rows for batch in batches) == text.count(b"\n")
        assert all(batch.num_rows == 1 or batch.nbytes <= 100_000 for batch in batches)
    assert len(batches) == 1
    wide_ones = [batch for batch in made if batch.num_columns == 50]
    assert max(batch.nbytes for batch in wide_ones) <= 100_000
