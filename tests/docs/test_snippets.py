"""The code of the pages runs as it stands, or up to the start of a query."""

import ast
import json
import re
from datetime import timedelta
from functools import reduce
from types import SimpleNamespace
from unittest.mock import Mock, create_autospec

import numpy as np
import pyarrow as pa

import tidegate
from tests.support.pages import blocks
from tests.support.progresses import progress, report, source
from tests.support.streams import NOON
from tidegate.windows import EventTimeSessionWindows, ProcessWindowFunction, TimeWindow, TumblingEventTimeWindows


def python(page):
    return [block for block in blocks(page) if block.language == "python"]


def test_operations(spark):
    last = SimpleNamespace(json=json.dumps(progress(0, source(report()))))
    names = {"tidegate": tidegate, "SparkSession": type(spark)}
    names["query"] = SimpleNamespace(lastProgress=last, recentProgress=[last])
    for block in python("docs/operations.md"):
        block.run(names)
    assert names["spark"] is not None


def test_archive(spark):
    names = {"spark": spark}
    with_offsets, _ = python("docs/archive.md")  # tests/sources/test_s3_and_kafka.py runs the other one
    with_offsets.run(names)
    assert names["df"].isStreaming


def test_options():
    decode = create_autospec(tidegate.from_avro)  # a registry is asked at once; tests/sources has one
    names = {"tidegate": SimpleNamespace(from_avro=decode), "df": Mock()}
    for block in python("docs/options.md"):
        if "/lake/bad-records" not in block.text:  # tests/sources/kafka/test_bad_records.py has such a folder
            block.run(names)
    assert decode.call_args.args[:2] == ("value", "orders-value")


def test_options_s3(spark):
    names = {"spark": spark}
    for block in python("docs/options-s3.md"):
        block.run(names)
    assert names["orders"].columns == ["id", "country", "created"]
    assert names["orders"].isStreaming


def test_watermarks(spark, bucket):
    bucket.put_rows("a.parquet", [(1, NOON)])
    own = {
        "s3://sales/orders": bucket.path,
        "s3://sales/": f"s3://{bucket.name}/",
        '.format("tidegate_s3")': f'.format("tidegate_s3").options(**{bucket.options})',
    }
    names = {"spark": spark, "servers": "localhost:9"}
    for block in python("docs/watermarks.md"):
        block.with_own(own).run(names)
    assert names["df"].isStreaming
    heartbeats = names["is_heartbeat"](pa.record_batch({"key": [b"a", b"heartbeat"]}))
    assert heartbeats.to_pylist() == [False, True]
    told = []
    output = SimpleNamespace(emit_watermark=told.append, mark_idle=lambda: told.append("idle"))
    names["EndOfFile"]().on_event(pa.record_batch({"value": [b"x", b"EOF"]}), np.array([NOON, NOON + 5]), output)
    assert told == [NOON + 4, "idle"]


def test_windows(spark):
    source_of_orders = tidegate.KafkaSource(bootstrap_servers="localhost:9", subscribe=["orders"])
    orders = source_of_orders.read_stream(spark).selectExpr("CAST(key AS STRING) page", "timestamp", "1.5D amount")
    names = {"orders": orders, "tidegate": tidegate, "timedelta": timedelta}
    names |= {"TumblingEventTimeWindows": TumblingEventTimeWindows, "ProcessWindowFunction": ProcessWindowFunction}
    count, write, outputs, merge, of_two, explained, over_windows = python("docs/windows.md")
    count.run(names)
    write.with_own({".start()": ""}).run(names)
    assert {"page", "count", "total", "output"} <= set(names["counts"].columns)
    minutes = TumblingEventTimeWindows.of(timedelta(minutes=5))
    names["windows"] = tidegate.windowed(orders, key="page", event_time="timestamp").window(minutes)
    outputs.run(names)
    assert "output" in names["totals"].columns
    names |= {"EventTimeSessionWindows": EventTimeSessionWindows, "TimeWindow": TimeWindow, "reduce": reduce}
    merge.run(names)
    assert names["Hours"].with_gap(timedelta(minutes=10)).merges
    names["clicks"] = orders.drop("amount")
    of_two.run(names)
    assert names["sales"].columns == ["page", "window_start", "window_end", "clicks", "total"]
    over_windows.run(names)
    assert names["best"].columns[:4] == ["until", "window_start", "window_end", "page"]
    call, answer = re.fullmatch(r">>> (.*)\n(.*)\n", explained.text).groups()
    assert eval(call, names) == ast.literal_eval(answer)  # noqa: S307 - it is the page's
