"""The preview of objects of a real endpoint, and what Spark's own file source then loses."""

import json
import os
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.buckets import parquet
from tests.support.streams import HOUR, NOON, even_times
from tidegate.alignment.budget import Budget
from tidegate.jobs.demo.run import count_by_window
from tidegate.jobs.preview.findings import by_modification
from tidegate.jobs.preview.seen import History

ROWS = 600
TWO_WRITERS = [*range(12), *range(3, 12)]  # the hours of their objects; the second one writes after the first


@pytest.fixture
def written(bucket, tmp_path):
    """Write an object for each hour, one after the other, and as files that Spark finds in the same order."""
    (tmp_path / "in").mkdir()
    for number, hour in enumerate(TWO_WRITERS):
        times = even_times(NOON + hour * HOUR, NOON + (hour + 1) * HOUR, ROWS)
        body = parquet(list(enumerate(times.tolist())))
        bucket.put(f"{number:02}.parquet", body)
        file = tmp_path / "in" / f"{number:02}.parquet"
        file.write_bytes(body)
        os.utime(file, (NOON / 1000 + number, NOON / 1000 + number))
    return tmp_path / "in"


@pytest.fixture
def look(tidegate, bucket):
    def run(*options):
        reached = {"eventTime": "column:at", **bucket.options}
        given = (word for name, value in reached.items() for word in ("--option", f"{name}={value}"))
        code, output, errors = tidegate("preview", "--path", bucket.path, *given, *options)
        assert (code, errors) == (0, "")
        return output

    return run


def test_the_command_predicts_what_sparks_file_source_loses(spark, written, look, tmp_path):
    said = json.loads(look("--option", "maxFilesPerTrigger=2", "--json"))
    files = spark.readStream.schema("id long, at timestamp").option("maxFilesPerTrigger", 2).parquet(str(written))
    really = count_by_window(
        spark,
        files.withColumnRenamed("at", "timestamp"),
        name="files",
        how="Spark's own file source",
        delay="10 minutes",
        rows_in=len(TWO_WRITERS) * ROWS,
        work=tmp_path / "checkpoint",
    )
    assert said["lostBySpark"] == really.lost > ROWS
    assert (said["rows"], said["batches"], said["filesPerBatch"]) == (len(TWO_WRITERS) * ROWS, 11, 2)
    assert sum(split["lostBySpark"] for split in said["splits"]) == said["lostBySpark"]
    assert [split["id"] for split in said["splits"]] == [f"objects-{n + 1}" for n in range(len(TWO_WRITERS))]
    assert [split["first"] for split in said["splits"]] == [NOON + hour * HOUR for hour in TWO_WRITERS]
    assert (said["tidegate"]["complete"], said["tidegate"]["rows"]) == (True, said["rows"])
    assert said["tidegate"]["leastDelay"] <= HOUR < said["leastDelay"]


def test_objects_are_shown_in_the_order_in_which_spark_reads_them(written, look, tmp_path):
    output = " ".join(look("--max-drift", "1 hour", "--html", tmp_path / "objects.html").split())
    assert (
        "Spark's own source would lose none of 12,600 rows in batches of 2 objects, and none in one batch" not in output
    )
    assert re.search(
        r"would lose [45],\d{3} of 12,600 rows \([34]\d.\d %\) in batches of 2 objects, and none in", output
    )
    assert "21 objects in 21 parts" in output
    assert "objects-13 " in output
    assert "from in/12.parquet up to 8 h 59 min behind earlier objects" in output
    assert '.option("maxFilesPerTrigger", "2")' in output
    assert '.withWatermark("at", "' in output
    assert re.search(r"the largest batch has 1,\d{3} rows, about \d+.\d KiB", output)
    assert "maxOutOfOrderness" not in output
    page = (tmp_path / "objects.html").read_text()
    assert "<h2>Event time against objects, in the order of their modification</h2>" in page
    assert re.findall(r'text-anchor="middle">([^<]*)</text>', page)[:3] == ["1", "3", "5"]
    assert "partition" not in page


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 9)), min_size=1, max_size=30),
    st.integers(1, 5) | st.none(),
    st.integers(1, 40) | st.none(),
)
def test_batches_are_those_of_sparks_file_source(files, most_files, most_bytes):
    """``FileStreamSource``: take(maxFiles), or takeFilesUntilMax, of what is left."""
    sizes, rows = zip(*files, strict=True)
    left, expected = [*files], [0]
    while left:
        taken = size = 0
        for size_of_file, _ in left:
            if taken and (taken == most_files or (most_bytes is not None and size + size_of_file > most_bytes)):
                break
            taken, size = taken + 1, size + size_of_file
        expected.append(expected[-1] + sum(n for _, n in left[:taken]))
        left = left[taken:]
    whole = History(0, sum(rows), None)
    positions = [
        0,
        *(at["t"] for at in by_modification({"t": whole}, rows, sizes, Budget(None, most_bytes, most_files))),
    ]
    assert positions == expected
    halves = {"a": History(0, 3, None), "b": History(3, sum(rows) + 3, None)}
    parts = [*by_modification(halves, [*rows, 3], [*sizes, 1], Budget(files=most_files))]
    assert all(a["a"] <= b["a"] and a["b"] <= b["b"] for a, b in pairwise(parts))
    assert parts[-1] == {"a": 3, "b": sum(rows) + 3}
