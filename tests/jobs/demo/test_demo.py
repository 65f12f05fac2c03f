"""The demonstration: its page, and the command with fewer rows, in the Spark and with the Kafka of all tests."""

import json
import re
import signal
from contextlib import nullcontext
from datetime import timedelta
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import numpy as np

from tests.support.progresses import HOUR, NOON, progress, report, source, typed
from tidegate import KafkaSource
from tidegate.alignment.durations import epoch_ms
from tidegate.jobs.demo import run
from tidegate.jobs.demo.page import COLUMNS, page, row, traced
from tidegate.jobs.demo.run import CountRun, Demo, _jars, _unaligned, as_progress, skewed_history
from tidegate.jobs.pages.chart import chart
from tidegate.jobs.pages.layout import hours_since
from tidegate.jobs.pages.trace import Stretch

HISTORY = {"orders-0": Stretch(NOON, NOON + 4 * HOUR), "orders-1": Stretch(NOON + 2 * HOUR, NOON + 4 * HOUR)}
ROWS = 33_000


def batches(*planned):
    """Return batches, given as Spark's watermark, and the bound and the next event time of both splits after it."""
    for number, (watermark, bound, *next_hours) in enumerate(planned):
        times = (None if hour is None else NOON + hour * HOUR for hour in next_hours)
        by_split = {split: ["reading", time, 50] for split, time in zip(HISTORY, times, strict=True)}
        said = report(bound=bound and NOON + bound * HOUR, bySplit=by_split)
        yield typed(progress(number, source(said), eventTime={"watermark": f"2023-11-15T{12 + watermark}:00:00.000Z"}))


UNALIGNED = tuple(batches((0, None, 1, 3), (3, None, 2, None), (4, None, None, None)))
ALIGNED = tuple(batches((0, 1, 1, 2), (1, 2, 2, 2), (2, 4, None, None)))
DEMO = Demo(
    HISTORY,
    (
        CountRun("unaligned", "Spark's own", 150, counted=70, open=20, batches=UNALIGNED, seconds=3.0),
        CountRun("aligned", "tidegate_kafka", 150, counted=140, open=10, batches=ALIGNED, seconds=4.0),
    ),
)


def picture(counted):
    """Return the classes of all marks, and the texts."""
    svg = chart(traced(DEMO, counted), hours_since(NOON, NOON + 4 * HOUR), "a run", ["60 rows", "lost"])
    marks = [*ET.fromstring(svg).iter()]  # noqa: S314
    return [mark.get("class", "").split(" ")[0] for mark in marks], [mark.text for mark in marks]


def test_what_ran_below_the_watermark_is_filled_and_told_and_bounds_and_watermarks_are_stairs():
    unaligned, aligned = map(picture, DEMO.runs)
    drawn = ("late", "bound", "watermark", "source-watermark")
    assert [unaligned[0].count(name) for name in drawn] == [1, 0, 1, 0]
    assert [aligned[0].count(name) for name in drawn] == [0, 1, 1, 0]
    assert ("60 rows" in unaligned[1], "60 rows" in aligned[1]) == (True, False)


def test_the_page_names_every_split_and_every_figure():
    text = page(DEMO)
    words = ("60 of 150 rows lost (40.0 %)", "None of 150 rows lost", "60 rows read below")
    for expected in (*HISTORY, *COLUMNS[:4], *words):
        assert expected in text
    for counted in DEMO.runs:
        for cell in row(counted):
            assert f">{cell}</td>" in text


def test_the_history_is_skewed_and_always_the_same():
    history = skewed_history(3_301)
    assert sum(map(len, history)) == 3_301
    assert [times[0] for times in history[:3]] == [1_767_225_600_000] * 3
    assert history[3][0] == history[0][0] + 22 * HOUR
    assert max(times[-1] for times in history) < history[0][0] + 24 * HOUR


def test_spark_s_own_source_is_drawn_by_its_offsets():
    said = progress(0, source(None))
    said["sources"][0] |= {"endOffset": json.dumps({"orders": {"0": 2, "1": 1}})}
    history = [np.array([10, 20, 30]), np.array([25])]
    drawn = as_progress(typed(said), "orders", history).source.progress
    assert {split: tuple(detail)[2] for split, detail in drawn.by_split.items()} == {"orders-0": 1, "orders-1": 0}
    assert [epoch_ms(detail.next_event_time) for detail in drawn.by_split.values()] == [30, None]
    assert drawn.rows_remaining == 1


def test_without_the_jars_of_spark_s_own_source_a_stand_in_is_named_as_such(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_KAFKA_LIBS", str(tmp_path))
    monkeypatch.setattr(KafkaSource, "read_stream", lambda source, _: source)
    said = []
    assert _jars(said.append) is None
    assert said == [
        (
            f"Without Spark's own Kafka source, because SPARK_KAFKA_LIBS={tmp_path} must be a folder of jars, "
            "but it holds no spark-sql-kafka-0-10_2.13-*.jar"
        )
    ]
    how, stand_in = _unaligned(None, "here:9092", 200, is_built_in=False)
    assert how == "tidegate_kafka with alignment = none, in place of Spark's own Kafka source"
    assert (stand_in.alignment, stand_in.max_offsets_per_trigger) == ("none", 200)


def figures(output, name):
    """Return a line of the table as numbers: unaligned, aligned."""
    line = re.search(rf"│ {name} +" + 2 * r"│ +([\d,]+)[^│]*", output)
    assert line, output
    return [int(figure.replace(",", "")) for figure in line.groups()]


def test_aligned_it_loses_no_row_and_unaligned_it_does(spark, kafka, tidegate, tmp_path, monkeypatch):
    strategy = run._ALIGNED.with_watermark_alignment(max_drift=timedelta(hours=6))
    monkeypatch.setattr(run, "_ALIGNED", strategy)  # a third of the batches
    monkeypatch.setattr(run, "_BATCHES_BY_BACKLOG", 8.5)
    monkeypatch.setattr(run, "KafkaServer", lambda: nullcontext(kafka))
    monkeypatch.setattr(run, "spark_session", lambda *_: nullcontext(spark))
    html = tmp_path / "pages" / "demo.html"
    code, output, errors = tidegate("demo", "--rows", ROWS, "--html", html)
    assert code == 0, errors
    assert output.rstrip().endswith(str(html))

    counted, waiting, lost = (figures(output, name) for name in ("counted", "in open windows", "lost"))
    assert [sum(figure) for figure in zip(counted, waiting, lost, strict=True)] == [ROWS] * 2
    assert lost[0] > ROWS / 2
    assert lost[1] == 0
    said = [line.partition(": ") for line in output.splitlines()[-3:-1]]
    assert [end for *_, end in said] == [f"late rows {lost[0]:,}, the rest complete", "late rows 0, complete"]
    assert said[0][0].startswith("unaligned (Spark's own Kafka source (")
    assert "Without Spark's own" not in errors
    assert 0 < waiting[1] < ROWS / 100
    dropped = figures(output, "Spark's drop metric")
    assert 0 < dropped[0] < lost[0]
    assert dropped[1] == 0

    page = html.read_text()
    assert page.count('<svg viewBox="0 0 560 400"') == 2
    assert all(f"orders-{partition}" in page for partition in range(4))
    assert "orders-3 paused" in page
    assert "http" not in page


def test_stopped_it_says_so_in_one_sentence(tidegate, tmp_path, monkeypatch):
    """The demonstration is stopped as soon as Kafka runs; ``test_session`` stops the work of Spark."""
    kafka = SimpleNamespace(bootstrap_servers="nowhere:1", create_topic=lambda *_: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(run, "KafkaServer", lambda: nullcontext(kafka))
    code, _, errors = tidegate("demo", "--rows", ROWS, "--html", tmp_path / "demo.html")
    assert code == 128 + signal.SIGINT
    assert errors.splitlines()[-1] == "tidegate: stopped; no page is written"
    assert "Traceback" not in errors
    assert not (tmp_path / "demo.html").exists()


def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(tidegate, tmp_path):
    (tmp_path / "file").touch()
    html = tmp_path / "file" / "demo.html"
    code, output, errors = tidegate("demo", "--rows", ROWS, "--html", html)
    assert code.startswith(f"tidegate: --html is '{html}', where nothing can be written: ")
    assert (len(code.splitlines()), output, errors) == (1, "", "")
