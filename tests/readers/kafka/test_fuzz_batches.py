"""Damages record batches of all message formats, and fetch responses with them, at random.

The result must be read, or end in CorruptDataError.  No other error and no crash is allowed.  Records may differ from
those that were written only if the checksum was made to fit the damage.
"""

import itertools
import random
import struct
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bytes import bit, byte, doubled, gap, number
from tests.support.kafka.lab import (
    BY_ID,
    BY_NAME,
    HEADER,
    Message,
    Record,
    answered,
    encode,
    plain,
    reseal,
    response,
    rows,
    sealed,
    wrapper,
)
from tidegate.errors import CorruptDataError
from tidegate.readers.kafka.batches import split_batches, visible_batches
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.decoder import RecordDecoder
from tidegate.readers.kafka.peek import first_record
from tidegate.servers.history import CODECS

ORDERS = TopicPartition("orders", 3)
FOREVER = 2**63 - 1
MOST_BYTES = 1 << 20
CRC_AT = 17
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
DAMAGES = [bit, bit, byte, number, number, gap, doubled]


def _records(rng, count):
    return [
        Record(
            rng.choice([0, -1, 1_700_000_000_000 + n]),
            rng.choice([None, b"", b"k%d" % n]),
            rng.choice([None, b"v" * rng.randrange(40), b"{}" * 100]),
            rng.choice([[], [], [("h", b"1")], [("ü", None), ("", b"x" * 30)]]),
        )
        for n in range(count)
    ]


def seeds(rng):
    """Return sound logs of a few batches or messages."""
    logs = []
    for codec in CODECS:
        new = [encode(_records(rng, 5), codec, 5 * n) for n in range(3)]
        marker = encode([Record(key=struct.pack(">hh", 0, 0))], "none", 20, 7, TRANSACTIONAL | CONTROL)
        logs.append([*new, encode(_records(rng, 5), codec, 15, 7, TRANSACTIONAL), marker])
        logs.append([encode(_records(rng, 5), codec, flags=LOG_APPEND_TIME)])
        if codec != "zstd":
            for magic in (0, 1):
                some_old = [(n, Message(1_000 + n, b"k", b"v" * n)) for n in range(5)]
                stamped = {"stamped_ms": 5} if magic else {}
                old = [wrapper(magic, some_old, codec, **stamped)] if codec != "none" else []
                logs.append([*old, *(plain(magic, 5 + n, message) for n, message in some_old), new[2]])
    return logs


def _mutated(rng, data):
    damaged = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if damaged:
            # Most fields are at the beginning.
            at = rng.randrange(min(len(damaged), rng.choice([HEADER, 2**31])))
            rng.choice(DAMAGES)(damaged, at, rng)
    return bytes(damaged)


def _sealed_again(batch):
    """Return the damaged batch with a length and a checksum that fit, as a faulty producer would send it."""
    if len(batch) > CRC_AT and batch[16] < 2:
        return sealed(batch, *struct.unpack_from(">q", batch), batch[17])
    return reseal(batch) if len(batch) >= HEADER else batch


def _read(data, aborted):
    batches = split_batches(data, most_bytes=MOST_BYTES)
    decoder = RecordDecoder(ORDERS, include_headers=True, max_batch_bytes=2_000)
    plainer = RecordDecoder(ORDERS, include_headers=False, max_batch_bytes=2_000)
    decoded_batches = []
    for batch in visible_batches(batches, aborted):
        head = first_record(batch, 2)
        assert head is None or 2 <= head[0] <= batch.last_offset
        for decoded in plainer.add(batch, 3, 12):
            decoded.validate(full=True)
        decoded_batches += decoder.add(batch, 0, FOREVER)
    list(plainer.flush())
    return rows([*decoded_batches, *decoder.flush()])


def _text_of(row):
    return repr([row[name] for name in ("key", "value", "timestamp", "timestampType", "headers")])


@settings(max_examples=9)
@given(st.integers(0, 2**32 - 1))
def test_damaged_batches_are_read_or_corrupt(seed):
    rng = random.Random(seed)
    logs = [(log, {_text_of(row) for row in _read(memoryview(b"".join(log)), [])}) for log in seeds(rng)]
    outcomes = Counter()
    for _ in range(1_000):
        log, written = rng.choice(logs)
        way = rng.choice(["bytes", "bytes", "sealed", "sealed", "sealed", "response"])
        parts = [*log]
        at = rng.randrange(len(parts))
        if way == "response":
            version = rng.choice([BY_NAME, BY_ID])
            data = response(version, b"".join(parts))
            data = data[:80] + _mutated(rng, data[80:]) if rng.random() < 0.2 else _mutated(rng, data[:80]) + data[80:]
        else:
            parts[at] = _mutated(rng, parts[at])
            parts[at] = _sealed_again(parts[at]) if way != "bytes" else parts[at]
            data = b"".join(parts)
        try:
            if way == "response":
                records = []
                for _, error_code, fetched in answered(data, version):
                    if not error_code:
                        records = _read(fetched.records, fetched.aborted)
            else:
                records = _read(memoryview(data), [(7, 15)] * rng.randrange(2))
        except CorruptDataError:
            outcomes[f"{way}: corrupt"] += 1
            continue
        except Exception as problem:
            raise AssertionError(f"{way}: {problem!r} for {data.hex()}") from problem
        offsets = [row["offset"] for row in records]
        assert all(before < after for before, after in itertools.pairwise(offsets)), data.hex()
        if way in {"bytes", "response"}:
            assert all(_text_of(row) in written for row in records), data.hex()
        outcomes[f"{way}: read"] += 1
    # Both outcomes happen, so the mutants are neither all corrupt nor all harmless.
    for way in ("bytes", "sealed", "response"):
        assert outcomes[f"{way}: corrupt"] > 6, outcomes
        assert outcomes[f"{way}: read"] > 6, outcomes
