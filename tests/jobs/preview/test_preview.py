"""The preview of topics of a real broker."""

import json
import re
from contextlib import closing, contextmanager
from datetime import timedelta

import numpy as np
import pytest
from kafka import KafkaProducer

from tests.jobs.preview.test_models import row_by_row
from tests.support.command import await_that
from tests.support.streams import HOUR, MINUTE, NOON, even_times, kafka_source, new_topic
from tidegate import KafkaSource, OptionError, preview
from tidegate.alignment.splits import SplitRange
from tidegate.jobs.demo.run import skewed_history
from tidegate.jobs.preview import findings, topics
from tidegate.jobs.preview.advice import of_spark, remarks, verdict
from tidegate.jobs.preview.seen import History
from tidegate.readers.contract import ReadTask

DAY = 24 * HOUR


def exactly_lost(partitions, limit, delay_ms=10 * MINUTE, window_ms=5 * MINUTE):
    """Return the rows that Spark would drop of each partition, from all event times."""
    splits = {number: History(0, len(times), np.asarray(times)) for number, times in enumerate(partitions)}
    _, lost, _ = row_by_row(splits, limit, delay_ms, window_ms)
    return [*lost.values()]


@contextmanager
def transactions(kafka, topic):
    """Yield a call that writes records, as (partition, event time), in a transaction that ends in some way."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic)

    def write(records, end="commit"):
        producer.begin_transaction()
        for partition, at_ms in records:
            producer.send(topic, b"", partition=partition, timestamp_ms=int(at_ms))
        producer.flush()
        getattr(producer, f"{end}_transaction")()

    with closing(producer):
        producer.init_transactions()
        yield write


def test_the_command_predicts_what_spark_loses_of_the_demonstrations_topic(kafka, tidegate):
    partitions = skewed_history(33_000)
    topic = new_topic(kafka, *partitions)
    command = ("preview", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--rows-per-batch", "2000")
    code, output, errors = tidegate(*command, "--json")
    assert (code, errors) == (0, "")
    said = json.loads(output)
    lost = exactly_lost(partitions, 2_000)
    assert said["rows"] == 33_000
    assert said["lostBySpark"] == pytest.approx(sum(lost), rel=0.005)
    assert [split["lostBySpark"] for split in said["splits"]] == pytest.approx(lost, rel=0.005)
    assert [split["rows"] for split in said["splits"]] == [len(times) for times in partitions]
    assert [(s["id"], s["first"], s["last"]) for s in said["splits"]] == [
        (f"{topic}-{number}", times[0], times[-1]) for number, times in enumerate(partitions)
    ]
    assert 12 * HOUR < said["leastDelay"] < DAY
    assert 16 <= said["batches"] <= 18
    assert said["tidegate"]["leastDelay"] < 5 * MINUTE
    assert (said["tidegate"]["complete"], said["tidegate"]["rows"]) == (True, 33_000)


def test_the_command_shows_the_topic_and_lines_to_paste_also_as_a_page(kafka, tidegate, tmp_path):
    topic = new_topic(kafka, *skewed_history(3_300))
    command = ("preview", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--max-drift", "1 hour")
    code, output, errors = tidegate(*command, "--html", tmp_path / "pages" / "preview.html")
    assert (code, errors) == (0, "")
    assert output.rstrip().endswith(str(tmp_path / "pages" / "preview.html"))
    verdict = r"would lose 2,4\d\d of 3,300 rows \(7\d.\d %\) in batches of 27\d rows, and none in one batch of all, "
    verdict += "judged by the records' own timestamps "
    said = " ".join(output.split())
    assert re.search(verdict, said)
    assert "Event times inside of keys, values and headers are not covered." in said
    assert re.search(r"Its watermark passes windows that still get rows by up to 1[78] h", said)
    assert re.search(rf"{topic}-0 +[█▁-▇]+ +1,000 +8\d\d *\n", output)
    assert re.search(rf"{topic}-3 +[█▁-▇]+ +300 +0 *\n +begins 22 h after the first", output)
    assert '.option("maxDrift", "1 hour")' in output
    page = (tmp_path / "pages" / "preview.html").read_text()
    assert page.count('role="img"') == 2
    assert [*re.findall(r'text-anchor="middle">([^<]*)</text>', page)][:5] == ["0", "1", "2", "3", "partition"]
    assert f"<td>{topic}-3</td><td>2026-01-01 22:00:00</td>" in page
    assert ".option(&quot;maxDrift&quot;, &quot;1 hour&quot;)" in page
    assert "http" not in page


def test_gaps_quiet_partitions_and_rates_that_change_are_seen(kafka):
    rng = np.random.default_rng(5)
    morning, evening = even_times(NOON, NOON + HOUR, 9_000), even_times(NOON + 20 * HOUR, NOON + DAY, 3_000)
    bursts = np.sort(NOON + (DAY * rng.beta(0.3, 2, 12_000)).astype(np.int64))
    partitions = [np.concatenate([morning, evening]), bursts, even_times(NOON + 22 * HOUR, NOON + DAY, 500)]
    topic = new_topic(kafka, *partitions, [])
    found = preview(kafka_source(kafka, topic, max_offsets_per_trigger=1_000))
    assert found.lost_by_spark == pytest.approx(sum(exactly_lost(partitions, 1_000)), rel=0.02)
    assert (found.splits[3].rows, found.splits[3].first_ms) == (0, None)


def test_a_record_of_the_future_is_seen_and_the_rows_behind_it_are_sampled(kafka):
    times = even_times(NOON, NOON + DAY, 20_000)
    ahead = times.copy()
    ahead[1_000] = NOON + 40 * DAY
    topic = new_topic(kafka, ahead, times, message_timestamp_after_max_ms=str(2**62))
    found = preview(kafka_source(kafka, topic, max_offsets_per_trigger=1_000))
    assert found.lost_by_spark == pytest.approx(sum(exactly_lost([ahead, times], 1_000)), rel=0.02)
    assert [split.first_ms for split in found.splits] == [NOON, NOON]
    assert found.splits[0].last_ms == NOON + 40 * DAY
    assert [*found.seen.blind] == [f"{topic}-0"]
    picture = found._repr_html_()
    assert f"<title>{topic}-1</title>" in picture
    assert "2023-12" not in picture


@pytest.mark.parametrize(("size", "place"), [(230, 0), (900, 100), (2_500, 2_400), (30_000, 29_000)])
def test_no_other_row_is_taken_for_one_of_the_future(kafka, size, place):
    """Wherever the record of the future is, and however few rows are behind it."""
    times, late = even_times(NOON, NOON + DAY, size), even_times(NOON + 20 * HOUR, NOON + DAY, size // 10)
    times[place] = NOON + 40 * DAY
    limit = size // 20
    topic = new_topic(kafka, times, late, message_timestamp_after_max_ms=str(2**62))
    found = preview(kafka_source(kafka, topic, max_offsets_per_trigger=limit))
    history = found.seen.histories[f"{topic}-0"]
    shares = np.linspace(0.05, 0.95, 19)
    assert np.quantile(history.times_ms, shares) == pytest.approx(np.quantile(times, shares), abs=10 * MINUTE)
    assert (history.times_ms.min(), history.last_ms) == (times.min(), times.max())
    assert found.lost_by_spark == pytest.approx(sum(exactly_lost([times, late], limit)), rel=0.02)
    least_ms = found.to_json()["leastDelay"]
    assert sum(exactly_lost([times, late], limit, least_ms)) == 0
    assert sum(exactly_lost([times, late], limit, least_ms * 95 // 100)) > 0
    assert ("nothing: about" in of_spark(found)) == (found.seen.blind == [f"{topic}-0"]) == (size - place > 200)


@pytest.mark.parametrize("limit", [20, 100])
def test_the_least_delay_loses_nothing_in_small_batches_with_disorder(kafka, limit):
    rng = np.random.default_rng(11)
    times = even_times(NOON, NOON + HOUR, 5_000) - (rng.random(5_000) < 0.05) * 10 * MINUTE
    topic = new_topic(kafka, times.astype(np.int64))
    source, minute = kafka_source(kafka, topic, max_offsets_per_trigger=limit), timedelta(minutes=1)
    found = preview(source, watermark_delay=minute, window=minute)
    assert found.lost_by_spark == pytest.approx(sum(exactly_lost([times], limit, MINUTE, MINUTE)), rel=0.2)
    least_ms = found.to_json()["leastDelay"]
    assert exactly_lost([times], limit, least_ms, MINUTE) == [0]
    assert least_ms < 11 * MINUTE
    assert "The least delay that loses nothing: about" in of_spark(found)


@pytest.mark.parametrize(("size", "error"), [(12_000, 0.03), (900, 0)])  # samples cover the smaller topic
def test_aborted_records_are_no_rows(kafka, size, error):
    topic, times = new_topic(kafka, []), even_times(NOON, NOON + DAY, size)
    with transactions(kafka, topic) as write:
        for part, end in zip(np.array_split(times, 3), ("commit", "abort", "commit"), strict=True):
            write([(0, at_ms) for at_ms in part], end)
    committed = {"isolation.level": "read_committed"}
    source = kafka_source(kafka, topic, kafka=committed, max_offsets_per_trigger=1_000)
    said = preview(source).to_json()
    assert said["rows"] == pytest.approx(size * 2 / 3, rel=error)
    assert said["tidegate"]["rows"] == pytest.approx(size * 2 / 3, rel=0.03)


def test_each_record_of_a_short_partition_is_seen_where_the_index_is_not(kafka):
    topic, times = new_topic(kafka, []), even_times(NOON, NOON + HOUR, 150)
    with transactions(kafka, topic) as write:
        for part, end in zip(np.array_split(times, 3), ("commit", "abort", "commit"), strict=True):
            write([(0, at_ms) for at_ms in part], end)
    found = preview(kafka_source(kafka, topic, kafka={"isolation.level": "read_committed"}, max_offsets_per_trigger=9))
    history = found.seen.histories[f"{topic}-0"]
    assert history.rows == found.splits[0].rows == 100
    assert history.times_ms[history.densities > 0.5].tolist() == [*times[:50], *times[100:]]


def test_compacted_records_are_no_rows(kafka):
    """Nearly all of the first records are gone, and the last ones are all there."""
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": "1",
        "min.cleanable.dirty.ratio": "0.001",
        "min.compaction.lag.ms": "0",
    }
    topic = new_topic(kafka, [], **compacted)
    source = kafka_source(kafka, topic, max_offsets_per_trigger=500)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=50)
    for number in range(6_002):
        key = b"%d" % (number if number >= 5_701 else number % 300)
        producer.send(topic, b"", key=key, partition=0, timestamp_ms=NOON + number * 1_000)
    producer.flush()

    def kept():
        # A record closes the segment before it, which the broker then compacts.
        end = producer.send(topic, b"", key=b"any", partition=0, timestamp_ms=NOON + 6_002_000).get(60).offset
        batches = source.reader(None).read(ReadTask((SplitRange(f"{topic}-0", 0, end),)))
        return sum(rows.num_rows for rows in batches)

    with closing(producer):
        await_that(lambda: kept() < 700)
        assert preview(source).to_json()["rows"] == pytest.approx(kept(), rel=0.05)


def test_an_empty_topic_is_one_sentence(kafka, tidegate, tmp_path):
    html, topic = tmp_path / "empty.html", new_topic(kafka, [])
    command = ("preview", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic)
    sentence = f"{topic} at {kafka.bootstrap_servers} has no records"
    assert tidegate(*command) == (0, f"{sentence}\n", "")
    code, output, errors = tidegate(*command, "--html", html, "--json")
    assert (code, errors) == (0, f"{html}\n")
    assert json.loads(output)["tidegate"]["maxDrift"] is None
    headings = re.findall(r"<h[12]>([^<]*)<|<p>([^<]*)<", html.read_text())
    assert headings == [(sentence, ""), ("", "1 partition.")]


def test_a_partition_whose_records_have_no_timestamp_is_not_called_empty(kafka):
    topic = new_topic(kafka, [-1] * 3, [])
    found = preview(kafka_source(kafka, topic))
    assert verdict(found) == f"{topic} at {kafka.bootstrap_servers} has no record with a timestamp"
    assert [remarks(found.seen, f"{topic}-{p}") for p in (0, 1)] == [["no record with a timestamp"], ["empty"]]


def test_figures_of_a_part_of_the_batches_are_marked(kafka, tidegate, tmp_path, monkeypatch):
    monkeypatch.setattr(findings, "MOST_PLANS", 40)
    topic, html = new_topic(kafka, *skewed_history(3_300)), tmp_path / "part.html"
    command = ("preview", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--max-drift", "1 hour")
    _, output, _ = tidegate(*command, "--html", html)
    sentence = r"These figures are of the first 4 batches only, with 15.\d % of the rows"
    assert re.search(sentence, " ".join(output.split()))
    assert re.search(sentence, html.read_text())
    _, output, _ = tidegate(*command, "--json")
    said = json.loads(output)["tidegate"]
    assert (said["complete"], said["batches"], said["rows"]) == (False, 4, pytest.approx(500, abs=20))


def test_event_times_that_kafka_does_not_index_are_refused(kafka):
    with pytest.raises(
        OptionError, match="eventTime is 'header:at', but a preview of a topic covers the records' own timestamps only"
    ):
        preview(kafka_source(kafka, "orders", event_time="header:at"))


def test_decoding_and_conditions_change_no_figure(kafka):
    topic = new_topic(kafka, *skewed_history(3_300))
    typed = {"value_format": "json", "value_schema": "id BIGINT", "columns": "value", "where": "value.id > 0"}
    plain, of_typed = (preview(kafka_source(kafka, topic, **fields)) for fields in ({}, typed))
    assert (of_typed.to_json()["splits"], of_typed.to_json()["rows"]) == (plain.to_json()["splits"], 3_300)


def test_marks_are_shown_with_the_records_behind_them(kafka, tidegate, tmp_path):
    """The second partition also has three late records, and the third has no mark."""
    topic, html = new_topic(kafka, [], [], []), tmp_path / "marks.html"
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for number in range(100):
        at_ms = NOON + number * MINUTE
        mark = [("mark", b"%d" % (at_ms - MINUTE))] if number % 10 == 9 else []
        late_ms = 30 * MINUTE if number in {50, 60, 70} else 0
        producer.send(topic, b"", partition=0, timestamp_ms=at_ms, headers=mark)
        producer.send(topic, b"", partition=1, timestamp_ms=at_ms - late_ms, headers=mark)
        producer.send(topic, b"", partition=2, timestamp_ms=at_ms)
    producer.close()
    command = ("preview", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--html", html)
    code, output, errors = tidegate(*command, "--option", "watermarkFrom=header:mark")
    said = " ".join(output.split())
    assert (code, errors) == (0, "")
    assert re.findall("[^ ]+ of 100 sampled records are marks, up to [-:0-9 ]+(?:; 3 come behind a mark)?", said) == [
        "10 of 100 sampled records are marks, up to 2023-11-15 13:38:00 ",
        "10 of 100 sampled records are marks, up to 2023-11-15 13:38:00; 3 come behind a mark",
    ]
    assert "no mark in 100 sampled records" in said
    assert '.option("watermarkFrom", "header:mark") 1 partition without marks in the samples, which would hold' in said
    assert "maxOutOfOrderness" not in said
    assert html.read_text().count('class="watermark"') == 3  # and the legend's
    _, output, _ = tidegate(*command)
    assert "mark" not in output.replace("watermark", "").replace("Watermark", "").replace(str(html), "")


def test_a_partition_whose_samples_lie_in_aborted_transactions_has_no_mark(kafka, monkeypatch):
    monkeypatch.setattr(topics, "_ROWS", 1)
    topic, times = new_topic(kafka, []), even_times(NOON, NOON + HOUR, 100)
    with transactions(kafka, topic) as write:
        for part, end in ((times, "abort"), ([NOON + HOUR], "commit"), (times + 2 * HOUR, "abort")):
            write([(0, at_ms) for at_ms in part], end)
    committed = {"isolation.level": "read_committed"}
    found = preview(kafka_source(kafka, topic, watermark_from="header:mark", kafka=committed))
    assert "no record in the samples" in remarks(found.seen, f"{topic}-0")


def test_a_transactional_back_fill_is_seen_by_samples(kafka):
    """Its markers carry the wall clock, so the index answers each time with the first of them."""
    partitions = [even_times(NOON, NOON + DAY, 3_000), even_times(NOON + 20 * HOUR, NOON + DAY, 1_000)]
    topic = new_topic(kafka, [], [])
    with transactions(kafka, topic) as write:
        for number, part in ((number, part) for number, p in enumerate(partitions) for part in np.array_split(p, 4)):
            write([(number, at_ms) for at_ms in part])
    found = preview(kafka_source(kafka, topic, max_offsets_per_trigger=300))
    assert found.lost_by_spark == pytest.approx(sum(exactly_lost(partitions, 300)), rel=0.02)
    assert [(s.first_ms, s.last_ms) for s in found.splits] == [(times[0], times[-1]) for times in partitions]
    assert len(found.seen.blind) == 2
    for split in found.splits:
        said = "; ".join(remarks(found.seen, split.id))
        assert re.search("99.\\d % of the offsets hold a record \\(compaction, transactions\\)", said)


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ({"window": timedelta(0)}, "the window is 0 s, but it must be at least 1 ms"),
        ({"watermark_delay": timedelta(seconds=-1)}, "the watermark delay is -1 s, but it must be at least 0"),
    ],
)
def test_times_out_of_range_are_refused_before_kafka_is_asked(times, reason):
    with pytest.raises(OptionError, match=reason):
        preview(KafkaSource(bootstrap_servers="127.0.0.1:1", subscribe=["any"]), **times)
