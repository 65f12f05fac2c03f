"""Queries over a checkpoint, in which the test plays Spark's part."""

import json
from collections import Counter
from datetime import timedelta

from tests.jobs.checkpoints import write_log
from tests.support.coordinators import coordinating
from tidegate import S3Source, WatermarkStrategy
from tidegate.enumerators.planning.offset import INITIAL_OFFSET


class Query:
    """A query over a checkpoint, batch by batch, as Spark runs it.

    delivered: how often each object was delivered, by the end of its key.
    """

    def __init__(self, bucket, folder):
        strategy = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1))
        self.state_folder, self.checkpoint = folder / "state", folder / "checkpoint"
        self.source = S3Source(
            path=bucket.path,
            state_location=str(self.state_folder),
            event_time="column:at",
            watermarks=strategy,
            **bucket.connection,
        )
        self.offset, self.number, self.delivered = INITIAL_OFFSET, 0, Counter()

    def run(self, batches=100, *, commits=True):
        """Run some batches; without ``commits`` the last batch is planned but not written."""
        with coordinating(self.source, discovery_interval_s=0) as planner:
            for left in range(batches, 0, -1):
                end = json.loads(json.dumps(planner.latest_offset(self.offset)))
                if end == self.offset:
                    return
                write_log(self.checkpoint, "offsets", self.number, json.dumps({"batchWatermarkMs": 0}), json.dumps(end))
                if commits or left > 1:
                    for task in planner.tasks(self.offset, end):
                        chunks = [chunk for of_range in task.details for chunk in of_range]
                        self.delivered.update(chunk.key.rpartition("/")[2] for chunk in chunks)
                    write_log(self.checkpoint, "commits", self.number, "{}")
                self.offset, self.number = end, self.number + 1
