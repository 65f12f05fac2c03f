"""The code of the pages runs as it stands, or up to the start of a query, and every command exists."""

import ast
import json
import re
import shlex
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from unittest.mock import Mock, create_autospec

import numpy as np
import pyarrow as pa
import typer
from prometheus_client import REGISTRY, generate_latest

import tidegate
from tests.support.pages import PAGES, ROOT, blocks
from tests.support.progresses import progress, report, source
from tests.support.streams import NOON
from tidegate.cli import app
from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.windows import ProcessWindowFunction, TumblingEventTimeWindows


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
    (block,) = python("docs/archive.md")
    block.run(names)
    assert names["df"].isStreaming


def test_read_kafka(spark, monkeypatch):
    decode = create_autospec(tidegate.from_avro)  # a registry is asked at once; tests/sources has one
    monkeypatch.setattr(tidegate, "from_avro", decode)
    names = {"spark": spark, "df": Mock()}
    by_option, by_argument, bad_records, from_avro = python("docs/read-kafka.md")
    for block in (by_option, by_argument):
        block.run(names)
        assert names["orders"].isStreaming
    assert "/lake/bad-records" in bad_records.text  # tests/sources/kafka/test_event_time.py has such a folder
    from_avro.run(names)
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
    reported = []
    output = SimpleNamespace(emit_watermark=reported.append, mark_idle=lambda: reported.append("idle"))
    names["EndOfFile"]().on_event(pa.record_batch({"value": [b"x", b"EOF"]}), np.array([NOON, NOON + 5]), output)
    assert reported == [NOON + 4, "idle"]


def test_windows(spark):
    names = {"spark": spark, "ProcessWindowFunction": ProcessWindowFunction}
    count, write, outputs, of_two, explained, over_windows = python("docs/windows.md")
    count.run(names)
    orders = names["orders"]
    write.with_own({".start()": ""}).run(names)
    assert {"page", "count", "total", "output"} <= set(names["counts"].columns)
    minutes = TumblingEventTimeWindows.of(timedelta(minutes=5))
    names["windows"] = tidegate.windowed(orders, key="page", event_time="timestamp").window(minutes)
    outputs.run(names)
    assert "output" in names["totals"].columns
    names["clicks"] = orders.drop("amount")
    of_two.run(names)
    assert names["sales"].columns == ["page", "window_start", "window_end", "clicks", "total"]
    over_windows.run(names)
    assert names["best"].columns[:4] == ["until", "window_start", "window_end", "page"]
    call, answer = re.fullmatch(r">>> (.*)\n(.*)\n", explained.text).groups()
    assert eval(call, names) == ast.literal_eval(answer)  # noqa: S307 - it is the page's


COMMANDS = typer.main.get_command(app)
KNOWN = {"python", "first.py", "count_orders.py"}  # what the README and the tutorial let a reader write


def commands():
    """Yield each command of the pages as (page, words): inline code, and the lines of blocks without a language."""
    for page in PAGES:
        text = page.read_text()
        lines = [line for block in blocks(page) if not block.language for line in block.text.splitlines()]
        inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
        for line in (*lines, *inline):
            if re.match(r"(tidegate|python|scripts/\w+)( |$)", line):
                yield page.name, shlex.split(line, comments=True)


def wrong(words):
    """Return what there is not in a command; None: all is there."""
    program, *remainder = words
    if program == "tidegate":
        return wrong_argument(COMMANDS, remainder)
    if remainder[:1] == ["-m"]:
        return wrong_in_module(remainder[1], [word for word in remainder[2:] if word.startswith("--")])
    script = remainder[0] if program == "python" and remainder else program
    return None if script in KNOWN or (ROOT / script).exists() else script


def wrong_in_module(name, options):
    file = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    file = file if file.exists() else file.with_suffix("") / "__main__.py"
    return next((o for o in options if o not in file.read_text()), None) if file.exists() else name


def wrong_argument(command, words):
    if subcommands := getattr(command, "commands", {}):
        if words and words[0] in subcommands:
            return wrong_argument(subcommands[words[0]], words[1:])
        if words and not words[0].startswith("-"):
            return words[0]
    known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    return next((word for word in words if word.startswith("--") and word not in known), None)


def test_every_command_of_the_pages_exists_with_its_options():
    named = [*commands()]
    assert len(named) > 60
    assert [(page, " ".join(words), fault) for page, words in named if (fault := wrong(words)) is not None] == []


(EXPORTER,) = (block for block in blocks("docs/metrics.md") if block.language == "python")
COMMITTED = datetime.fromtimestamp(NOON / 1000, timezone.utc) + timedelta(hours=6)
BEHIND = SourceProgress.from_json(
    report(lateRowsTotal=17, badRecordsTotal=5, splits={"paused": 3, "reading": 1}), COMMITTED
)
WITHOUT_WATERMARK = SourceProgress.from_json(report(watermark=None, reads="payments at kafka:9092"))


def test_prometheus_is_told_the_figures_of_each_source_and_the_dashboard_shows_them_all(monkeypatch):
    callbacks = []
    monkeypatch.setattr(tidegate, "on_progress", lambda _, callback: callbacks.append(callback))
    EXPORTER.with_own({"start_http_server(8000)": "start_http_server(0)"}).run({"spark": None})
    callbacks[0]("orders by country", 7, [BEHIND, WITHOUT_WATERMARK])
    reported = generate_latest(REGISTRY).decode()
    labels = f'{{query="orders by country",source="{BEHIND.reads}"}}'
    assert f"tidegate_late_rows_total{labels} 17.0" in reported
    assert f"tidegate_paused_splits{labels} 3.0" in reported
    assert f"tidegate_rows_remaining{labels} {float(BEHIND.rows_remaining)}" in reported
    assert f"tidegate_bad_records_total{labels} 5.0" in reported
    assert f"tidegate_current_fetch_event_time_lag_seconds{labels} {5 * 3600.0}" in reported
    assert f"tidegate_current_emit_event_time_lag_seconds{labels} {6 * 3600.0}" in reported
    assert re.findall(r"^tidegate_watermark_lag_seconds\{.*\} (.*)$", reported, re.MULTILINE) == [f"{6 * 3600 + 60.0}"]

    panels = json.loads((ROOT / "docs/dashboards/grafana.json").read_text())["panels"]
    shown = {re.match(r"\w+", panel["targets"][0]["expr"])[0] for panel in panels}
    assert shown == set(re.findall(r"^(tidegate_\w+)\{", reported, re.MULTILINE))
