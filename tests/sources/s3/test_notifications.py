"""A stream that learns of new objects by a queue, through Spark."""

from datetime import timedelta

from tests.support.queues import event_bridge_body, s3_body, sns_body
from tests.support.streams import HOUR, NOON, running, start
from tests.support.waiting import await_that

NAMES = ("plain", "a space", "plus+plus", "per%20cent", "ümläut-日本", "q?a=1&b#c", "dt=2026-11-21/part 0")


def ids(rows):
    return [row["id"] for row in rows.collect()]


def test_a_stream_reads_what_it_is_told_once_and_empties_the_queue(spark, bucket, queue, source, tmp_path):
    fields = {"queue_url": queue.url, "file_format": "json", "event_time": "column:at", "event_time_unit": "ms"}
    stream = source(**fields, discovery_interval=timedelta(milliseconds=200))
    bucket.put_rows("before.json", [(0, NOON)])
    queue.send(s3_body((bucket.name, "in/before.json")), "no JSON")
    read = []
    frame = stream.read_stream(spark).select("id")
    with running(start(frame, tmp_path / "checkpoint", lambda batch, _: read.extend(ids(batch)))):
        await_that(lambda: read == [0], state=lambda: read)
        for number, name in enumerate(NAMES, 1):
            bucket.put_rows(f"{name}.json", [(number, NOON + number * HOUR)])
            key = f"in/{name}.json"
            shapes = (
                s3_body((bucket.name, key)),
                sns_body(s3_body((bucket.name, key))),
                event_bridge_body(bucket.name, key),
            )
            queue.send(shapes[number % 3], shapes[(number + 1) % 3])
        bucket.put_rows("untold.json", [(99, NOON)])
        await_that(lambda: len(read) > len(NAMES), state=lambda: read)
        await_that(lambda: len(queue) == 1, state=queue.counts)
    assert sorted(read) == list(range(len(NAMES) + 1))
    batch = source(**fields).read(spark).select("id")
    assert sorted(ids(batch)) == [*range(len(NAMES) + 1), 99]
    assert len(queue) == 1
