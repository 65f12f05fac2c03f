"""An endpoint that fails between the source and the objects: all rows are read once, or one clear error comes."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.support.coordinators import coordinating
from tests.support.objects.faulty_server import FAULTS, faulty
from tests.support.streams import HOUR, NOON
from tidegate import S3Source
from tidegate.alignment.budget import Budget
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import DeadlineError

OBJECTS, ROWS = 24, 5


class Impatient(S3Source):
    """A source with a deadline of this number of seconds for every operation."""

    deadline_s: float = 60

    @property
    def connection(self):
        return replace(super().connection, deadline_s=self.deadline_s)


def soon(of):
    """Return the same source, which gives up soon; work that must succeed on a busy machine uses the patient one."""
    return of.model_copy(update={"deadline_s": 1})


def source(bucket, proxy, **fields):
    known = {"path": bucket.path, "event_time": "column:at", **bucket.connection, "endpoint": proxy.endpoint}
    return Impatient(**known, state_location=f"s3://{bucket.name}/state", **fields)


def fill(bucket, suffix):
    for number in range(OBJECTS):
        rows = [(number * ROWS + n, NOON + (number * 7 % OBJECTS) * HOUR + n) for n in range(ROWS)]
        bucket.put_rows(f"{number:02}.{suffix}", rows)


@contextmanager
def running(of):
    with coordinating(of) as coordinator:
        coordinator.bound_run()
        yield coordinator


def ids(of, tasks):
    reader = of.reader(None)
    return [n for task in tasks for batch in reader.read(task) for n in batch.column("id").to_pylist()]


@pytest.mark.parametrize(("suffix", "seed"), [("parquet", 1), ("json", 2)])
def test_what_fails_now_and_then_is_read_once_over_several_runs(bucket, suffix, seed):
    fill(bucket, suffix)
    with faulty(bucket.server, share=0.3, seed=seed) as proxy:
        settings = {"file_format": suffix, "event_time_unit": "ms" if suffix == "json" else None}
        of = source(bucket, proxy, **settings)
        of = of.model_copy(update={"columns": of.arrow_schema})
        rows, offset, more = [], INITIAL_OFFSET, True
        while more:
            with running(of) as run:
                for _ in range(2):
                    end = json.loads(json.dumps(run.latest_offset(offset, Budget(files=7))))
                    more = end != offset
                    rows += ids(of, run.tasks(offset, end))
                    offset = end
        assert sorted(rows) == list(range(OBJECTS * ROWS))
        assert {kind for kind in proxy.sent if kind} == set(FAULTS)


@pytest.mark.parametrize("kind", [503, "reset", "cut"])
def test_listing_through_faults_that_never_end_is_one_error_after_the_deadline(bucket, kind):
    fill(bucket, "parquet")
    with faulty(bucket.server, kinds=(kind,)) as proxy:
        of = source(bucket, proxy)
        of = of.model_copy(update={"columns": of.arrow_schema, "state_location": None})
        proxy.share = 1.0
        with running(soon(of)) as run, pytest.raises(DeadlineError, match=rf"{bucket.name}.* within 1 s"):
            run.latest_offset(INITIAL_OFFSET)


def test_reading_through_faults_that_never_end_is_one_error_after_the_deadline(bucket):
    fill(bucket, "parquet")
    with faulty(bucket.server, kinds=(503, "cut", "reset")) as proxy:
        of = source(bucket, proxy)
        of = of.model_copy(update={"columns": of.arrow_schema})
        with running(of) as run:
            tasks = run.tasks(INITIAL_OFFSET, run.latest_offset(INITIAL_OFFSET))
            proxy.share = 1.0
            with pytest.raises(DeadlineError, match=rf"s3://{bucket.name}/in/.* within 1 s"):
                ids(soon(of), tasks)
            proxy.share = 0.0
            assert sorted(ids(of, tasks)) == list(range(OBJECTS * ROWS))
