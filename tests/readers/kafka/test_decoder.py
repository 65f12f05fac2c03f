"""The decoder on bytes of all kinds: it returns all well-formed records, and other bytes are corrupt."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.kafka.lab import HEADER, Record, encode, reseal, rows
from tidegate.alignment.splits import NEVER_MS, Horizon
from tidegate.errors import CorruptDataError
from tidegate.readers.event_time.units import LARGEST_MS
from tidegate.readers.kafka.batches import split_batches
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.decoder import RecordDecoder, find_record
from tidegate.readers.kafka.peek import first_record

ORDERS = TopicPartition("orders", 3)
FOREVER = 2**63 - 1

texts = st.none() | st.binary(max_size=300)
records = st.builds(
    Record,
    st.integers(-(2**40), 2**42),
    texts,
    texts,
    st.lists(st.tuples(st.text(max_size=5), texts), max_size=3),
)


def split(data):
    (batch,) = split_batches(memoryview(data))
    return batch


def decode(batches, start=0, end=FOREVER, **options):
    decoder = RecordDecoder(ORDERS, **{"include_headers": True, "max_batch_bytes": 10_000, **options})
    decoded = []
    for batch in batches:
        decoded += [*decoder.add(batch, start, end)]
    return rows([*decoded, *decoder.flush()])


def expected(offset, record):
    return {
        "key": record.key,
        "value": record.value,
        "topic": "orders",
        "partition": 3,
        "offset": offset,
        "timestamp": record.timestamp,
        "timestampType": 0,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }


@given(
    st.lists(records, min_size=1, max_size=30),
    st.integers(-2, 32),
    st.integers(-2, 32),
    st.sampled_from([50, 500, 100_000]),
)
def test_well_formed_records_come_out_whole_and_trimmed(written, start, end, max_batch_bytes):
    decoded_rows = decode([split(encode(written))], start, end, max_batch_bytes=max_batch_bytes)
    assert decoded_rows == [expected(offset, record) for offset, record in enumerate(written) if start <= offset < end]


@settings(max_examples=300)
@given(st.binary(max_size=200))
@example(b"\xff" * 20)
@example(b"\x80" * 9 + b"\x01")
@example(b"\x14\x00\x00\x00\x01\x01" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01")  # the largest number of headers
def test_any_bytes_are_decoded_or_corrupt_and_never_crash(body):
    check_damaged(body)


def check_damaged(body):
    batch = split(reseal(encode([Record()])[:HEADER] + body))
    batch = replace(batch, last_offset=FOREVER)
    for include_headers in (False, True):
        decoder = RecordDecoder(ORDERS, include_headers=include_headers, max_batch_bytes=500)
        with suppress(CorruptDataError):
            assert all(part.num_rows for part in decoder.add(batch, -(2**62), FOREVER))
        assert all(part.num_rows for part in decoder.flush())
    for position in (0, 1):
        assert outcome(first_record, batch, position) == outcome(by_loop, batch, position)


def by_loop(batch, position):
    return find_record(batch, batch.records(), position, -(2**62), Horizon())


def outcome(function, batch, position):
    """Return the result of a function, or the error that the batch is corrupt after the requested records."""
    try:
        return function(batch, position)
    except CorruptDataError:
        return CorruptDataError


def test_small_batches_are_merged_and_large_ones_are_cut():
    small = [replace(split(encode([Record(value=b"v")])), base_offset=at, last_offset=at) for at in range(100)]
    decoder = RecordDecoder(ORDERS, include_headers=False, max_batch_bytes=1_000_000)
    assert [part for batch in small for part in decoder.add(batch, 0, 100)] == []
    assert [part.num_rows for part in decoder.flush()] == [100]
    assert [*decoder.flush()] == []

    decoder = RecordDecoder(ORDERS, include_headers=False, max_batch_bytes=10_000)
    large = split(encode([Record(value=b"v" * 100)] * 1000))
    merged = [*decoder.add(large, 0, 1000), *decoder.flush()]
    assert sum(part.num_rows for part in merged) == 1000
    assert all(part.nbytes <= 10_000 for part in merged)


def test_a_batch_outside_the_range_is_not_even_checked():
    broken = bytearray(encode([Record()] * 5))
    broken[HEADER] ^= 1
    assert decode([split(bytes(broken))], 5, 10) == []
    assert decode([split(bytes(broken))], -5, 0) == []
    with pytest.raises(CorruptDataError):
        decode([split(bytes(broken))], 4, 10)


TOO_LARGE = "^the record batch at offset 0 holds a record with a timestamp too large for Spark; its producer may write"


@given(st.lists(records, min_size=1, max_size=4), st.integers(0, 4), st.integers(-(2**40), 2**42), st.booleans())
def test_the_first_record_is_what_the_loop_finds(written, position, limit_ms, stamped):
    batch = replace(split(encode(written)), append_time_ms=7 if stamped else None)
    timed = [(at, 7 if stamped else record.timestamp) for at, record in enumerate(written)][position:]
    for lowest_ms, horizon_ms in ((limit_ms, NEVER_MS), (-(2**62), limit_ms)):
        remainder = [(at, at_ms) for at, at_ms in timed if lowest_ms <= at_ms < horizon_ms]
        left_out = [at_ms for at, at_ms in timed if at_ms >= horizon_ms and (not remainder or at < remainder[0][0])]
        for find in (first_record, find_record):
            horizon = Horizon(horizon_ms)
            if find is first_record:
                first = first_record(batch, position, lowest_ms=lowest_ms, horizon=horizon)
            else:
                first = find_record(batch, batch.records(), position, lowest_ms, horizon)
            assert first == (remainder[0] if remainder else None)
            assert horizon.next_ms == min(left_out, default=NEVER_MS)


def test_a_look_at_a_batch_loads_no_compiler_before_looks_have_cost_as_much():
    data = encode([Record(5), Record(6), Record(7)])
    run(
        "import sys; from tidegate.readers.kafka.batches import split_batches\n"
        "from tidegate.readers.kafka import peek as module\n"
        f"batch = split_batches(memoryview({data!r}))[0]\n"
        "first_record = module.first_record\n"
        "assert [first_record(batch, at) for at in range(3)] == [(0, 5), (1, 6), (2, 7)]\n"
        "assert first_record(batch, 0, lowest_ms=8) is None\n"
        "assert 'numba' not in sys.modules\n"
        "module._steps_left = 0\n"
        "assert first_record(batch, 2) == (2, 7)\n"
        "assert 'numba' in sys.modules\n"
    )


def run(code, **environment):
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **environment})


def test_importing_does_not_compile():
    run("import tidegate.readers.kafka.decoder as k; assert not k._fill.signatures and not k._find.signatures")


def test_the_decoder_works_where_nothing_can_be_cached():
    nothing = "numpy.empty(0, numpy.uint8), numpy.zeros(13, numpy.int64), 0, 0"
    code = f"import numpy, tidegate.readers.kafka.decoder as k; assert not k._find({nothing})[0]"
    run(code, NUMBA_CACHE_LOCATOR_CLASSES="UserProvidedCacheLocator", NUMBA_CACHE_DIR="")


def test_columns_do_not_share_memory_with_the_fetch():
    data = bytearray(encode([Record(value=b"before")]))
    decoder = RecordDecoder(ORDERS, include_headers=False, max_batch_bytes=1000)
    list(decoder.add(split_batches(memoryview(data))[0], 0, 1))
    np.frombuffer(data, np.uint8)[:] = 0
    (batch,) = decoder.flush()
    assert batch.column("value").to_pylist() == [b"before"]


RECORD_COUNT_AT, LAST_DELTA_AT, BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT = 57, 23, 27, 35


def changed(data, at, layout, value, attributes=None):
    return split(reseal(data[:at] + struct.pack(layout, value) + data[at + struct.calcsize(layout) :], attributes))


@pytest.mark.parametrize("count", [-1, 0, 9, 11, 2**31 - 1])
def test_a_batch_without_as_many_records_as_it_says_is_corrupt(count):
    batch = changed(encode([Record()] * 10), RECORD_COUNT_AT, ">i", count)
    sentence = f"^the record batch at offset 0 does not hold {count} records$"
    for ask in (
        lambda: decode([batch]),
        lambda: decode([batch], 5),
        lambda: decode([batch], max_batch_bytes=100),  # in several parts
        lambda: first_record(batch, 0, lowest_ms=2_000),
    ):
        with pytest.raises(CorruptDataError, match=sentence):
            ask()
    assert len(decode([batch], 2, 4)) == 2  # these two are sound, whatever follows


def test_records_out_of_order_or_past_the_last_offset_are_corrupt():
    ten = encode([Record()] * 10)
    record = (len(ten) - HEADER) // 10
    twice = reseal(ten[: HEADER + record] + ten[HEADER : HEADER + record] + ten[HEADER + 2 * record :])
    for batch in (split(twice), changed(ten, LAST_DELTA_AT, ">i", 8)):
        for ask in (lambda batch=batch: decode([batch]), lambda batch=batch: first_record(batch, 0, lowest_ms=2000)):
            with pytest.raises(CorruptDataError, match="impossible field"):
                ask()


@pytest.mark.parametrize("base_ms", [-(2**63), 2**63 - 1, -(2**62), LARGEST_MS + 1, -LARGEST_MS - 1])
@pytest.mark.parametrize("delta_ms", [-5, 0, 5])
@pytest.mark.parametrize("stamped", [False, True])
def test_a_time_that_no_timestamp_holds_is_corrupt_and_never_another_time(base_ms, delta_ms, stamped):
    at, attributes = (MAX_TIMESTAMP_AT, 0x08) if stamped else (BASE_TIMESTAMP_AT, 0)
    batch = changed(encode([Record(0), Record(delta_ms)]), at, ">q", base_ms, attributes)
    for ask in (lambda: decode([batch]), lambda: first_record(batch, 1)):
        with pytest.raises(CorruptDataError, match=TOO_LARGE):
            ask()


def test_the_greatest_times_are_read():
    for at_ms in (LARGEST_MS, -LARGEST_MS):
        batch = split(encode([Record(0), Record(at_ms)]))
        assert [row["timestamp"] for row in decode([batch])] == [0, at_ms]
        assert first_record(batch, 1) == (1, at_ms)
        past = split(encode([Record(at_ms), Record(at_ms + at_ms // LARGEST_MS)]))
        with pytest.raises(CorruptDataError, match=TOO_LARGE):
            decode([past])


def test_the_greatest_offsets_are_read():
    batch = split(encode([Record()] * 3, "none", 2**63 - 4))
    assert [row["offset"] for row in decode([batch])] == [2**63 - 4, 2**63 - 3, 2**63 - 2]
    assert first_record(batch, 2**63 - 2) == (2**63 - 2, 1_000)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"ok", "ok"),
        (b"\xff", "\ufffd"),
        (b"a\xc3", "a\ufffd"),
        (b"\xf0\x9f\x92x", "\ufffdx"),
        (b"\xed\xa0\x80z", "\ufffdz"),  # Python would use three
        (b"\xe2\x82\xac", "€"),
    ],
)
def test_header_names_that_are_no_utf8_come_as_javas_client_has_them(name, text):
    placeholder = "n" * len(name)
    body = encode([Record(headers=[(placeholder, b"1"), ("x", None)])])[HEADER:].replace(placeholder.encode(), name)
    batch = split(reseal(encode([Record()])[:HEADER] + body))
    ((row),) = decode([batch])
    assert row["headers"] == [{"key": text, "value": b"1"}, {"key": "x", "value": None}]
