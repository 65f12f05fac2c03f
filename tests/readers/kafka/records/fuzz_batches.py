"""Damages record batches of all message formats, and the fetch responses that bring them, at random.

What is left must be read, or end in CorruptDataError: no other error, no crash, and under checksums no other record
than was written.

    python -m tests.readers.kafka.records.fuzz_batches [--mutants 200000] [--seed 0]
"""

from __future__ import annotations

import argparse
import itertools
import random
import struct
import time
from collections import Counter
from typing import Any

from tests.support.kafka.fetch_responses import BY_ID, BY_NAME, ORDERS_ID, response
from tests.support.kafka.lab import HEADER, Record, encode, reseal, rows
from tests.support.kafka.old_messages import Message, plain, sealed, wrapper
from tidegate.errors import CorruptDataError
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.fetch import read_fetch_response
from tidegate.readers.kafka.records.batches import split_batches, visible_batches
from tidegate.readers.kafka.records.decoder import RecordDecoder
from tidegate.readers.kafka.records.first_record import first_record
from tidegate.servers.batches import CODECS

ORDERS = TopicPartition("orders", 3)
FOREVER = 2**63 - 1
MOST_BYTES = 1 << 20
PRODUCER_ID_AT, ATTRIBUTES_AT, CRC_AT = 43, 21, 17
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
EXTREMES = [0, 1, -1, 2**7, 2**15, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]
FORMATS = ["b", ">h", ">i", ">q"]


def _shifted(batch: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + batch[8:]


def _transactional(batch: bytes, producer_id: int, flags: int = TRANSACTIONAL) -> bytes:
    batch = batch[:PRODUCER_ID_AT] + struct.pack(">q", producer_id) + batch[PRODUCER_ID_AT + 8 :]
    return reseal(batch, struct.unpack_from(">h", batch, ATTRIBUTES_AT)[0] | flags)


def _records(some: random.Random, count: int) -> list[Record]:
    return [
        Record(
            some.choice([0, -1, 1_700_000_000_000 + n]),
            some.choice([None, b"", b"k%d" % n]),
            some.choice([None, b"v" * some.randrange(40), b"{}" * 100]),
            some.choice([[], [], [("h", b"1")], [("ü", None), ("", b"x" * 30)]]),
        )
        for n in range(count)
    ]


def seeds(some: random.Random) -> list[list[bytes]]:
    """Logs of a few batches or messages, all sound."""
    logs = []
    for codec in CODECS:
        new = [_shifted(encode(_records(some, 5), codec), 5 * n) for n in range(3)]
        marker = encode([Record(key=struct.pack(">hh", 0, 0))])
        logs.append([*new, _transactional(_shifted(new[0], 15), 7), _transactional(_shifted(marker, 20), 7, 0x30)])
        logs.append([reseal(new[0], [*CODECS].index(codec) | LOG_APPEND_TIME)])
        if codec != "zstd":
            for magic in (0, 1):
                some_old = [(n, Message(1_000 + n, b"k", b"v" * n)) for n in range(5)]
                stamped = {"stamped_ms": 5} if magic else {}
                old = [wrapper(magic, some_old, codec, **stamped)] if codec != "none" else []
                logs.append([*old, *(plain(magic, 5 + n, message) for n, message in some_old), _shifted(new[0], 10)])
    return logs


def _flipped(some: random.Random, data: bytearray) -> None:
    data[some.randrange(len(data))] ^= 1 << some.randrange(8)


def _replaced(some: random.Random, data: bytearray) -> None:
    data[some.randrange(len(data))] = some.choice([0, 1, 0x7F, 0x80, 0xFF, some.randrange(256)])


def _extreme(some: random.Random, data: bytearray) -> None:
    layout = some.choice(FORMATS)
    size = struct.calcsize(layout)
    value = some.choice(EXTREMES) + some.randrange(-2, 3)
    # Most fields stand at the beginning.
    at = some.randrange(min(len(data), some.choice([HEADER, 2**31])))
    data[at : at + size] = (value % 2 ** (8 * size)).to_bytes(size, "big")


def _cut(some: random.Random, data: bytearray) -> None:
    at = some.randrange(len(data))
    del data[at : at + some.randrange(1, 20)]


def _doubled(some: random.Random, data: bytearray) -> None:
    at = some.randrange(len(data))
    data[at:at] = data[at : at + some.randrange(1, 20)]


MUTATIONS = [_flipped, _flipped, _replaced, _extreme, _extreme, _cut, _doubled]


def _mutated(some: random.Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(some.choice([1, 1, 1, 2, 4])):
        if damaged:
            some.choice(MUTATIONS)(some, damaged)
    return bytes(damaged)


def _sealed_again(batch: bytes) -> bytes:
    """The damaged batch with a length and a checksum that fit, as a producer of nonsense would send it."""
    if len(batch) > CRC_AT and batch[16] < 2:
        return sealed(batch, *struct.unpack_from(">q", batch), batch[17])
    return reseal(batch) if len(batch) >= HEADER else batch


def _read(data: memoryview, aborted: Any, *, check_crc: bool) -> list[dict[str, Any]]:
    batches = split_batches(data, check_crc=check_crc, most_bytes=MOST_BYTES)
    decoder = RecordDecoder(ORDERS, include_headers=True, max_batch_bytes=2_000)
    plainer = RecordDecoder(ORDERS, include_headers=False, max_batch_bytes=2_000)
    found = []
    for batch in visible_batches(batches, aborted):
        head = first_record(batch, 2)
        assert head is None or 2 <= head[0] <= batch.last_offset
        for each in plainer.add(batch, 3, 12):
            each.validate(full=True)
        found += decoder.add(batch, 0, FOREVER)
    list(plainer.flush())
    return rows([*found, *decoder.flush()])


def _told(row: dict[str, Any]) -> str:
    return repr([row[name] for name in ("key", "value", "timestamp", "timestampType", "headers")])


def fuzz(mutants: int, seed: int = 0) -> Counter[str]:
    """Read so many mutants, and count what became of them; raises AssertionError for what must not."""
    some = random.Random(seed)
    logs = [(log, {_told(row) for row in _read(memoryview(b"".join(log)), [], check_crc=True)}) for log in seeds(some)]
    outcomes: Counter[str] = Counter()
    for _ in range(mutants):
        log, written = some.choice(logs)
        way = some.choice(["bytes", "bytes", "sealed", "sealed", "unchecked", "response"])
        parts = [*log]
        at = some.randrange(len(parts))
        if way == "response":
            version = some.choice([BY_NAME, BY_ID])
            data = response(version, b"".join(parts))
            data = (
                data[:80] + _mutated(some, data[80:]) if some.random() < 0.2 else _mutated(some, data[:80]) + data[80:]
            )
        else:
            parts[at] = _mutated(some, parts[at])
            parts[at] = _sealed_again(parts[at]) if way != "bytes" else parts[at]
            data = b"".join(parts)
        try:
            if way == "response":
                found = []
                for _, error_code, fetched in read_fetch_response(memoryview(data), version, {ORDERS.topic: ORDERS_ID}):
                    if not error_code:
                        found = _read(fetched.records, fetched.aborted, check_crc=True)
            else:
                found = _read(memoryview(data), [(7, 15)] * some.randrange(2), check_crc=way != "unchecked")
        except CorruptDataError:
            outcomes[f"{way}: corrupt"] += 1
            continue
        except Exception as problem:
            raise AssertionError(f"{way}: {problem!r} for {data.hex()}") from problem
        offsets = [row["offset"] for row in found]
        assert all(before < after for before, after in itertools.pairwise(offsets)), data.hex()
        if way in {"bytes", "response"}:
            assert all(_told(row) in written for row in found), data.hex()
        outcomes[f"{way}: read"] += 1
    return outcomes


def main() -> None:
    """Run, and say what became of the mutants."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begun = time.monotonic()
    outcomes = fuzz(given.mutants, given.seed)
    print(f"{given.mutants} mutants from seed {given.seed} in {time.monotonic() - begun:.0f} s: {dict(outcomes)}")


if __name__ == "__main__":
    main()
