"""Objects in memory for tests of formats, and tables of every type that Parquet and Spark share."""

import bz2
import gzip
from datetime import date, datetime, timezone
from decimal import Context, Decimal

import cramjam
import pyarrow as pa
from hypothesis import strategies as st

from tidegate.errors import ObjectGoneError
from tidegate.readers.objects.values import Chunk, S3Object
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.store import ObjectStore

GONE = "s3://data/x was overwritten after it was found"
BOM = b"\xef\xbb\xbf"
COMPRESSED = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda text: bytes(cramjam.zstd.compress(text)),
    ".lz4": lambda text: bytes(cramjam.lz4.compress(text)),
}


class InMemory(ObjectStore):
    """Objects by their keys, which are answered at once, for tests that ask thousands of times.

    content: of the object ``x``.
    asked: the ranges that were asked for.
    gone: the range whose request shows that its object is gone; True: any.
    """

    def __init__(self, content=None, **contents):
        super().__init__(S3ConnectionConfig(), "data")
        self.contents = contents if content is None else {"x": content, **contents}
        self.asked = []
        self.gone = False

    def _fetch(self, found, start, end):
        content = self.contents[found.key]
        assert 0 <= start <= end <= len(content)
        if self.gone in (True, (start, end)):
            raise ObjectGoneError(GONE, overwritten=True)
        self.asked.append((start, end))
        return content[start:end]

    def listed(self, key="x"):
        return held(self.contents[key])._replace(key=key)

    def chunks(self):
        return [chunk(self.listed(key)) for key in self.contents]


class Memory(InMemory):
    """One object, which errors name by its key alone; ``requests``: the sizes of the ranges that were asked for."""

    def __init__(self, content, key="a/b.json"):
        super().__init__(**{key: content})
        self.content, self.object = content, self.listed(key)

    @property
    def requests(self):
        return [end - start for start, end in self.asked]

    def address(self, key):
        return key


def held(content):
    """Return what a listing shows of an object in memory."""
    return S3Object("x", len(content), "", 0)


def chunk(found, start=0, end=None):
    return Chunk(*found, start, found.size if end is None else end, 1, None, None)


def read(made, found, schema, start=0, end=None, set_aside=None):
    return pa.Table.from_batches(made.read(chunk(found, start, end), schema, set_aside), schema)


def read_all(made, found, schema, set_aside=None):
    """Return the rows of all chunks of an object, which cover it without gaps."""
    surveys = made.survey(found, None)
    assert [0, *(survey.end for survey in surveys)] == [*(survey.start for survey in surveys), found.size]
    rows = []
    for survey in surveys:
        for batch in made.read(chunk(found, survey.start, survey.end), schema, set_aside):
            assert batch.schema.equals(schema)
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows


_PRIMITIVE = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.binary(3), pa.date32(),
    pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    pa.decimal128(5, 2), pa.decimal128(38, 0),
]  # fmt: skip


def _nested(inner):
    structs = st.lists(inner, min_size=1, max_size=3).map(
        lambda kinds: pa.struct([(f"f{index}", kind) for index, kind in enumerate(kinds)])
    )
    return inner.map(pa.list_) | inner.map(pa.large_list) | structs | inner.map(lambda kind: pa.map_(pa.string(), kind))


types = st.recursive(st.sampled_from(_PRIMITIVE), _nested, max_leaves=4)


def fields():
    """Fields called ``c``."""
    return types.map(lambda kind: pa.field("c", kind))


def values(kind):
    """Values of a type, or None."""
    return st.none() | _values(kind)


def _values(kind):
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    if pa.types.is_map(kind):
        entries = st.dictionaries(_values(kind.key_type), values(kind.item_type), max_size=3)
        return entries.map(lambda made: [*made.items()])
    if pa.types.is_nested(kind):
        return st.lists(values(kind.value_type), max_size=3)
    return next(made(kind) for is_kind, made in _MADE if is_kind(kind))


def _integers(kind):
    signed = pa.types.is_signed_integer(kind)
    bits = kind.bit_width - signed
    return st.integers(-(2**bits) if signed else 0, 2**bits - 1)


def _decimals(kind):
    most = 10**kind.precision - 1
    return st.integers(-most, most).map(lambda number: Decimal(number).scaleb(-kind.scale, Context(prec=38)))


def _moments(kind):
    zone = None if kind.tz is None else timezone.utc
    step = {"s": 10**6, "ms": 10**3}.get(kind.unit, 1)
    moments = st.datetimes(datetime(1902, 1, 1), datetime(9999, 12, 30))  # noqa: DTZ001 - the zone is added
    return moments.map(lambda at: at.replace(microsecond=at.microsecond // step * step, tzinfo=zone))


_MADE = [
    (pa.types.is_boolean, lambda _: st.booleans()),
    (pa.types.is_integer, _integers),
    (pa.types.is_floating, lambda kind: st.floats(width=kind.bit_width, allow_nan=False)),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_fixed_size_binary, lambda kind: st.binary(min_size=kind.byte_width, max_size=kind.byte_width)),
    (pa.types.is_binary, lambda _: st.binary(max_size=5)),
    (pa.types.is_date, lambda _: st.dates(date(1, 1, 1), date(9999, 12, 31))),
    (pa.types.is_timestamp, _moments),
    (lambda _: True, lambda _: st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
]


def arrays(kind, rows=None):
    """Arrays of a type, of a number of rows or of a few."""
    sizes = {"max_size": 6} if rows is None else {"min_size": rows, "max_size": rows}
    return st.lists(values(kind), **sizes).map(lambda made: pa.array(made, kind))
