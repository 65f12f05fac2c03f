"""The back-fill of objects against a real endpoint: the same command goes on after anything has ended it."""

import pytest
from pyarrow import dataset

from tests.jobs.backfill.sources import asked
from tests.support.streams import HOUR, MINUTE, NOON
from tidegate.jobs.backfill import Output, RunLine, binding, write_batches

HOURS = 24


def fill(bucket, hours, name="{}.parquet"):
    """Write an object of two rows for each hour; ids count up over all objects."""
    for hour in hours:
        rows = [(2 * hour + n, NOON + hour * HOUR + n * MINUTE) for n in range(2)]
        bucket.put_rows(name.format(f"{(hour * 7) % HOURS:02}-{hour}"), rows)


def written(out):
    """Return the rows in the files as (batch, id), in order."""
    table = dataset.dataset(out, format="parquet", partitioning="hive").to_table(["batch", "id"])
    return sorted(zip(table["batch"].to_pylist(), table["id"].to_pylist(), strict=True))


@pytest.fixture
def source(bucket, tmp_path):
    def make(**options):
        given = {"eventTime": "column:at", **bucket.options, **options}
        return asked(tmp_path / "out", bucket.path, max_drift="6 hours", options=given)

    return make


def test_runs_that_end_midway_write_every_row_once_and_show_how_far_they_are(
    spark, bucket, source, tmp_path, monkeypatch
):
    fill(bucket, range(HOURS))
    output, shown = Output(tmp_path / "out"), []
    folder = Output.batch

    def full(output, number, columns):
        if number == 2:
            raise OSError("the disk is full")
        return folder(output, number, columns)

    def run():
        line = RunLine()
        shown.extend(map(line.after, write_batches(spark, source(), output)))

    with output.alone():
        output.claim(binding(source(), output.path))
        monkeypatch.setattr(Output, "batch", full)
        with pytest.raises(Exception, match="the disk is full"):
            run()
        monkeypatch.undo()
        run()
        fill(bucket, [HOURS])
        run()
    rows = written(output.path)
    assert rows == [(row // 12, row) for row in range(2 * HOURS + 2)]
    assert output.rows() == len(rows)
    assert shown[0].startswith("25.0 % · 12 rows · ")
    assert "rows/s · read up to 2023-11-15 18:00:00 · " in shown[0]
    # The second run begins with a batch that the first one has planned, and the third one with nothing.
    assert [line.split(" · ")[0] for line in shown] == ["25.0 %", "50.0 %", "12 rows", "100 %", "100 %"]
