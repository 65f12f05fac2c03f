"""A query is followed batch by batch, however late the caller asks for the next one."""

import json
from types import SimpleNamespace

from tests.support.progresses import one
from tidegate.jobs import session as followed
from tidegate.jobs.session import follow


class Query:
    """A query of which Spark keeps ten batches; ``asked`` counts how often all of them were asked for."""

    def __init__(self, first):
        self.isActive = True
        self.asked = 0
        self.done = [first - 1]
        self.ended = False

    def run(self, batches):
        self.done += range(self.done[-1] + 1, self.done[-1] + 1 + batches)

    @property
    def _kept(self):
        return [SimpleNamespace(batchId=number, json=json.dumps(one(number))) for number in self.done[1:][-10:]]

    @property
    def lastProgress(self):  # noqa: N802 - Spark's name
        return self._kept[-1] if self._kept else None

    @property
    def recentProgress(self):  # noqa: N802 - Spark's name
        self.asked += 1
        return self._kept

    def awaitTermination(self):  # noqa: N802 - Spark's name
        pass

    def stop(self):
        self.ended = True


def test_all_that_spark_keeps_is_asked_for_only_after_more_than_one_batch(monkeypatch):
    """Batches that Spark no longer keeps leave a gap in the numbers."""
    query, steps = Query(first=7), iter([0, 1, 1, 0, 3, 0, 1, 15])

    def sleep(_):
        if (batches := next(steps, None)) is None:
            query.isActive = False
        else:
            query.run(batches)

    monkeypatch.setattr(followed.time, "sleep", sleep)
    assert [batch.number for batch in follow(query)] == [*range(7, 13), *range(18, 28)]
    assert query.asked == 3  # the first batch of a run that goes on, three at once, and fifteen
    assert query.ended
