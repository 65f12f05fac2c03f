"""A topic and objects in one query, in a group.  ``kafka/test_groups.py`` has a join."""

from datetime import datetime, timezone

import numpy as np

from tests.support.kafka.lab import Lab, Record, encode
from tests.support.pages import blocks
from tests.support.streams import (
    HOUR,
    MINUTE,
    NOON,
    available_now,
    even_times,
    milliseconds,
    new_topic,
)

IN_AN_OBJECT = 30 * MINUTE  # an object is read whole


def test_an_archive_without_offsets_is_cut_at_an_event_time(spark, kafka, bucket, tmp_path):
    """The objects hold four hours, and the topic has the records from the second hour on, out of order."""
    times, cut_ms = even_times(NOON, NOON + 6 * HOUR, 360), NOON + 3 * HOUR
    for hour in range(4):
        here = slice(60 * hour, 60 * hour + 60)
        bucket.put_rows(f"{hour}.parquet", list(zip(range(360)[here], times[here].tolist(), strict=True)))
    numbers = np.arange(120, 360)
    numbers[59], numbers[62] = numbers[62], numbers[59]
    topic = new_topic(kafka, [])
    Lab(kafka).append(topic, encode([Record(int(times[number]), value=b"%06d" % number) for number in numbers]))
    cut, earlier = (datetime.fromtimestamp(at / 1000, timezone.utc).isoformat() for at in (cut_ms, cut_ms - 3 * MINUTE))
    own = {
        "2026-11-01T00:00:00Z": cut,
        "startingTimestamp=cut": f"startingTimestamp='{earlier}'",
        "localhost:9092": kafka.bootstrap_servers,
        'subscribe="orders"': f'subscribe="{topic}"',
        "s3://lake/orders": bucket.path,
        "s3://lake/state": str(tmp_path / "state"),
        '.format("tidegate_s3")': f'.format("tidegate_s3").options(**{bucket.options})',
    }
    names = {"spark": spark}
    recipe = [block for block in blocks("docs/archive.md") if "unionByName" in block.text]
    recipe[0].with_own(own).run(names)
    run = available_now(names["orders"], tmp_path / "checkpoint")
    assert sorted(row["id"] for row in run.all_rows) == [*range(360)]
    assert run.furthest_ahead(lambda row: milliseconds(row["at"])) <= HOUR + IN_AN_OBJECT

    recipe[0].with_own({**own, "s3://lake/state": str(tmp_path / "state of both")}).run(names)
    overlapping = names["older"].unionByName(names["newer"]).withWatermark("at", "2 hours")
    run = available_now(overlapping.dropDuplicatesWithinWatermark(["id"]), tmp_path / "checkpoint of both")
    assert sorted(row["id"] for row in run.all_rows) == [*range(360)]
    assert sum(progress.numInputRows for progress in run.progress.values()) > 360
