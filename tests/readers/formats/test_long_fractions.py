"""Decimals with more digits after the point than any type has: Arrow alone would end the process."""

from decimal import Decimal

import pyarrow as pa
import pytest

from tests.support.objects.lab import Memory, chunk
from tidegate.errors import BadRecordError
from tidegate.readers.arrow.conform import conform
from tidegate.readers.formats.bad_records import BadRecordPolicy
from tidegate.readers.formats.csv import converter_of
from tidegate.readers.formats.json import JsonFormat

KIND = pa.decimal128(10, 2)
NOTHING = Decimal("0.00")

# Spark rounds these half up; None: the text is no decimal.
LONG = [
    ("1e-10000000", None),
    ("-7.5E-0099", NOTHING),
    ("7e-41", NOTHING),
    ("0." + "0" * 60 + "7", NOTHING),
    ("1.5" + "0" * 60, Decimal("1.50")),
    ("1500000000000000000000000e-24", Decimal("1.50")),
]


@pytest.mark.parametrize(("text", "expected"), LONG)
@pytest.mark.parametrize("written", ["{}", '"{}"'])
@pytest.mark.parametrize("columns", [pa.schema([("s", pa.list_(KIND))]), pa.schema([("s", pa.struct([("d", KIND)]))])])
def test_lines_of_json_are_read_one_by_one_for_them(text, expected, written, columns):
    value = written.format(text)
    nested = f"[{value}]" if pa.types.is_list(columns.field("s").type) else f'{{"d":{value}}}'
    memory = Memory(f'{{"s":{nested}}}\n'.encode())
    made = JsonFormat(memory, bad_records=BadRecordPolicy("PERMISSIVE"))
    [batch] = made.read(chunk(memory.object), columns)
    inner = [expected] if pa.types.is_list(columns.field("s").type) else {"d": expected}
    assert batch.to_pylist() == [{"s": None if isinstance(inner, list) and expected is None else inner}]


def test_no_escape_hides_one():
    memory = Memory(rb'{"d":"1e\u002d10000000"}' + b"\n")
    made = JsonFormat(memory, bad_records=BadRecordPolicy("PERMISSIVE"))
    [batch] = made.read(chunk(memory.object), pa.schema([("d", KIND)]))
    assert batch.to_pylist() == [{"d": None}]


@pytest.mark.parametrize(("text", "expected"), LONG)
def test_values_of_csv_are_read_one_by_one_for_them(text, expected):
    decimals, missed = converter_of("d", KIND)(pa.array([text, "2.5"]))
    assert decimals.to_pylist() == [expected, Decimal("2.50")]
    assert (missed is not None) == (expected is None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-10000000", None),
        ("7e-41", None),
        ("none.00000000000000000000", None),
        ("0e-41", NOTHING),
        ("-1.5" + "0" * 60, Decimal("-1.50")),
        ("1500000000000000000000000e-24", Decimal("1.50")),
    ],
)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_column_of_texts_becomes_decimals_where_none_is_rounded(text, expected, kind):
    batch = pa.record_batch({"d": pa.array([text, None, "2.5"], kind)})
    if expected is None:
        with pytest.raises(BadRecordError, match=r"^the column 'd' is of the type"):
            conform(batch, pa.schema([("d", KIND)]))
    else:
        made = conform(batch, pa.schema([("d", KIND)]))
        assert made.to_pydict() == {"d": [expected, None, Decimal("2.50")]}
