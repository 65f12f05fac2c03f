"""A task as an executor reads it, in a process of its own."""

import pickle
import subprocess
import sys

from tests.support.logs import coordinating
from tests.support.streams import HOUR, NOON, even_times, kafka_source, new_topic
from tidegate.alignment.plan import Limits
from tidegate.sources.tasks import SOURCE_WATERMARK, TaskPartition

WORKER = """
import pickle, sys
from tidegate.sources.tasks import read_task
source, partitions = pickle.load(sys.stdin.buffer)
rows = sum(batch.num_rows for partition in partitions for batch in read_task(source, partition))
print(rows, "numpy" in sys.modules, "pandas" in sys.modules)
"""


def test_records_their_event_times_and_watermarks_are_read_without_pandas(kafka):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 100), even_times(NOON, NOON + HOUR, 50))
    source = kafka_source(
        kafka,
        topic,
        starting_offsets="earliest",
        include_headers=True,
        include_event_time=True,
        source_watermark="rows",
    )
    with coordinating(source, limits=Limits(aligned=False)) as run:
        tasks, state = run.everything()
    moved = {SOURCE_WATERMARK: NOON}
    partitions = [TaskPartition(task, state, moved, watermark_row_ms=moved) for task in tasks]
    worker = subprocess.run(
        [sys.executable, "-c", WORKER], input=pickle.dumps((source, partitions)), capture_output=True, check=True
    )
    assert worker.stdout.split() == [b"%d" % (150 + len(tasks)), b"True", b"False"]
