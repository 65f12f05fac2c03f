"""Measures values of Avro and Protobuf in Confluent's wire format: ``valueFormat`` against functions behind a source.

    python -m benchmarks.kafka.registered [--rows 600000] [--rounds 3] [--partitions 4] [--cases avro protobuf]

avro: Spark's own source with its own ``from_avro``, which gets the bytes behind the id, and ours with
    ``tidegate.from_avro``.
protobuf: ours with ``tidegate.from_protobuf``.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import fastavro
import numpy as np
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

import tidegate
from benchmarks.kafka.typed import BEGIN_MS, SHOPS, Longs, compare, write
from benchmarks.measuring.peers import BUILT_IN, TIDEGATE, avro_jars, built_in_jars, session
from tidegate.readers.registry.client import RegisteredSchema
from tidegate.readers.registry.protobuf import ProtobufSchema
from tidegate.servers import KafkaServer

KINDS = {"id": "long", "shop": "string", "amount": "double", "at": "long", "by": "string"}
AVRO = {"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in KINDS.items()]}
PROTOBUF = """syntax = "proto3";
message Order { int64 id = 1; string shop = 2; double amount = 3; int64 at = 4; string by = 5; }
"""
SCHEMAS = {"avro": json.dumps(AVRO), "protobuf": PROTOBUF}
ID = b"\0\0\0\0\1"


@contextmanager
def registry(schemas: Mapping[str, str]) -> Iterator[str]:
    """Serve a schema for each form, whose subject is ``FORM-value``; yield the address."""
    ids = dict(enumerate(schemas, 1))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, kind, name, number, *_ = self.path.partition("?")[0].split("/")
            form = name.removesuffix("-value") if kind == "subjects" else ids[int(number)]
            body = json.dumps({"schema": schemas[form], "schemaType": form.upper()}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def orders(encode: Callable[[dict[str, Any]], bytes], start: int, count: int) -> tuple[Longs, bytes]:
    """Return the times and the values of so many orders from a number on; these are of one size."""
    times = BEGIN_MS + np.arange(start, start + count, dtype=np.int64)
    generator = np.random.default_rng(start)
    shops, cents = generator.integers(0, SHOPS, count), generator.integers(1, 10_000, count)
    columns = zip(shops.tolist(), cents.tolist(), times.tolist(), strict=True)
    rows = (
        {"id": 10**9 + start + place, "shop": f"shop-{shop:04}", "amount": cent / 100, "at": at, "by": "x" * 50}
        for place, (shop, cent, at) in enumerate(columns)
    )
    return times, b"".join(map(encode, rows))


def encoder(form: str) -> Callable[[dict[str, Any]], bytes]:
    """Return what encodes an order."""
    if form == "protobuf":
        message = GetMessageClass(ProtobufSchema(RegisteredSchema("PROTOBUF", PROTOBUF)).message((0,)))
        return lambda row: ID[:4] + b"\2\0" + message(**row).SerializeToString()
    schema = fastavro.parse_schema(AVRO)

    def encode(row: dict[str, Any]) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, row)
        return ID + stream.getvalue()

    return encode


def sides(spark: SparkSession, form: str, servers: str, url: str) -> dict[str, DataFrame]:
    """Return the queries that are compared."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": form}

    def load(source: str, **others: str) -> DataFrame:
        return spark.read.format(source).options(**options, **others).load()

    function = getattr(tidegate, f"from_{form}")
    behind = load(TIDEGATE).select(function("value", f"{form}-value", {"schema.registry.url": url}).alias("value"))
    inside = load(TIDEGATE, **{"valueFormat": form, "columns": "value", "schema.registry.url": url})
    found = {f"tidegate, from_{form}": behind, "tidegate, valueFormat": inside}
    if form == "avro":
        values = load(BUILT_IN).select(from_avro(f.expr("substring(value, 6)"), SCHEMAS[form]).alias("value"))
        found = {"Spark's source, from_avro": values, **found}
    return {name: frame.select("value.*") for name, frame in found.items()}


def main() -> None:
    """Print a table for each form."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--cases", nargs="+", default=[*SCHEMAS], choices=[*SCHEMAS])
    arguments = parser.parse_args()
    with KafkaServer() as kafka, registry(SCHEMAS) as url:
        servers = kafka.bootstrap_servers
        spark = session(settings={**tidegate.session_conf(), "spark.jars": f"{built_in_jars()},{avro_jars()}"})
        for form in arguments.cases:
            encode = encoder(form)
            kafka.create_topic(form, arguments.partitions)
            write(servers, form, arguments.rows, arguments.partitions, lambda *part, of=encode: orders(of, *part))
            compare(f"{form}: {arguments.rows:,} records", sides(spark, form, servers, url), arguments.rounds)
        spark.stop()


if __name__ == "__main__":
    main()
