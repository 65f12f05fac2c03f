"""An endpoint that fails now and then between the source and the objects: all rows are read once."""

import json

import pytest

from tests.support.coordinators import coordinating
from tests.support.objects.faulty_server import FAULTS, faulty
from tests.support.streams import HOUR, NOON
from tidegate import S3Source
from tidegate.alignment.budget import Budget
from tidegate.enumerators.planning.offset import INITIAL_OFFSET

OBJECTS, ROWS = 24, 5


@pytest.mark.parametrize(("suffix", "seed"), [("parquet", 1), ("json", 2)])
def test_what_fails_now_and_then_is_read_once_over_several_runs(bucket, suffix, seed):
    for number in range(OBJECTS):
        rows = [(number * ROWS + n, NOON + (number * 7 % OBJECTS) * HOUR + n) for n in range(ROWS)]
        bucket.put_rows(f"{number:02}.{suffix}", rows)
    with faulty(bucket.server, share=0.3, seed=seed) as proxy:
        settings = {"event_time_unit": "ms"} if suffix == "json" else {}
        place = {**bucket.connection, "endpoint": proxy.endpoint, "state_location": f"s3://{bucket.name}/state"}
        of = S3Source(path=bucket.path, file_format=suffix, event_time="column:at", **settings, **place)
        of = of.model_copy(update={"columns": of.arrow_schema})
        ids, offset, more = [], INITIAL_OFFSET, True
        while more:
            with coordinating(of) as run:
                run.bound_run()
                for _ in range(2):
                    end = json.loads(json.dumps(run.latest_offset(offset, Budget(files=7))))
                    more = end != offset
                    for task in run.tasks(offset, end):
                        ids += [n for batch in of.reader(None).read(task) for n in batch.column("id").to_pylist()]
                    offset = end
        assert sorted(ids) == list(range(OBJECTS * ROWS))
        assert {kind for kind in proxy.sent if kind} == set(FAULTS)
