"""Small sound objects of each format, and damaged objects made from them; a number always gives the same object."""

from __future__ import annotations

import functools
import io
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
from pyarrow import csv

from tests.readers.formats.avro.files import avro, logical
from tests.readers.formats.contract import CASES
from tests.readers.formats.files import orc_file, parquet
from tests.support.bytes.damage import bit, byte, gap, number, surplus, variable_number

FORMATS = ("parquet", "orc", "avro", "json", "csv", "text")
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("s", pa.string()), ("f", pa.float64())])
_ROWS = 60


def _plain() -> pa.Table:
    return pa.table(
        {
            "at": pa.array(np.arange(_ROWS) * 1_000_000 + 1_700_000_000_000_000, pa.timestamp("us", "UTC")),
            "n": pa.array([None if n % 7 == 0 else n * 1_000_003 for n in range(_ROWS)], pa.int64()),
            "s": [f"text {n % 5}" if n % 3 else None for n in range(_ROWS)],
            "f": [n / 3 for n in range(_ROWS)],
        }
    )


def _typed() -> pa.Table:
    nested = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    plain = _plain()
    return pa.table(
        {
            **dict(zip(plain.column_names, plain.columns, strict=True)),
            "b": [n % 2 == 0 for n in range(_ROWS)],
            "d": pa.array([Decimal(n) / 4 for n in range(_ROWS)], pa.decimal128(20, 4)),
            "day": pa.array(range(_ROWS), pa.date32()),
            "bytes": [bytes([n] * (n % 9)) for n in range(_ROWS)],
            "list": [[*range(n % 4)] if n % 5 else None for n in range(_ROWS)],
            "map": pa.array([[(f"k{n % 3}", n)] for n in range(_ROWS)], pa.map_(pa.string(), pa.int64())),
            "nested": pa.array([{"a": n, "b": [str(n)] * (n % 3)} for n in range(_ROWS)], nested),
        }
    )


def _csv(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    csv.write_csv(table, sink)
    return sink.getvalue()


def _avro(codec: str) -> bytes:
    rows = [
        {"at": n * 1_000_000, "n": None if n % 7 == 0 else n, "s": f"text {n}", "f": n / 3, "d": Decimal(n)}
        for n in range(_ROWS)
    ]
    return avro(
        rows, codec, 300, at=logical("long", "timestamp-micros"), n=["int", "null"], s="string", f="double",
        d=logical("bytes", "decimal", precision=9),
    )  # fmt: skip


@functools.cache
def seeds(file_format: str) -> list[bytes]:
    """Return the sound objects of a format."""
    plain, typed = _plain(), _typed()
    match file_format:
        case "parquet":
            return [
                parquet(plain, compression="none"),
                parquet(plain, 20, compression="none", use_dictionary=False, data_page_version="2.0"),
                parquet(typed, compression="none", data_page_size=64),
                parquet(typed, compression="snappy", write_page_index=True),
                parquet(typed, compression="zstd", version="1.0", use_dictionary=False),
                parquet(plain, compression="none", use_dictionary=False, column_encoding={
                    "at": "DELTA_BINARY_PACKED", "n": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY",
                    "f": "BYTE_STREAM_SPLIT",
                }),
                parquet(plain, compression="gzip", use_deprecated_int96_timestamps=True),
                parquet(plain, compression="lz4", column_encoding={"s": "DELTA_LENGTH_BYTE_ARRAY"},
                         use_dictionary=False),
                parquet(plain, compression="brotli"),
            ]  # fmt: skip
        case "orc":
            codecs = ("uncompressed", "uncompressed", "zlib", "snappy", "lz4", "zstd")
            return [
                *(orc_file(plain, compression=codec) for codec in codecs),
                *(orc_file(typed, compression=codec) for codec in codecs[:4]),
                orc_file(plain, compression="uncompressed", dictionary_key_size_threshold=1.0),
                orc_file(typed, 20, compression="uncompressed"),
                orc_file(plain, compression="uncompressed", dictionary_key_size_threshold=1.0, file_version="0.11"),
            ]
        case "avro":
            return [*map(_avro, ("null", "null", "deflate", "snappy", "bzip2", "xz"))]
        case "json":
            return [CASES["json"].write(table, _ROWS) for table in (plain, typed.drop_columns(["bytes", "map"]))]
        case "csv":
            return [_csv(plain), _csv(plain).replace(b"text ", b'a, \\"quoted\\" ')]
        case _:
            return [_csv(plain), "grüße\r\n".encode() * 20]


def mutant(file_format: str, seed: int) -> bytes:
    """Return a damaged object of a format."""
    dice = random.Random(f"{file_format} {seed}")
    made = bytearray(dice.choice(seeds(file_format)))
    splice = functools.partial(_splice, seeds(file_format))
    damages = (byte, byte, byte, bit, bit, number, variable_number, gap, surplus, splice)
    # The parts that damage harms most are at the end of these objects.
    tail = max(0, len(made) - 1_200) if file_format in {"parquet", "orc"} else 0
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 5, 9))):
        if made:
            at = dice.randrange(min(tail, len(made) - 1) if dice.random() < 0.5 else 0, len(made))
            dice.choice(damages)(made, at, dice)
    if dice.random() < 0.03:
        del made[dice.randrange(len(made) + 1) :]
    return bytes(made)


def _splice(others: list[bytes], made: bytearray, at: int, dice: random.Random) -> None:
    other = dice.choice(others)
    begin, length = dice.randrange(len(other)), dice.choice((1, 4, 16, 64))
    made[at : at + length] = other[begin : begin + length]
