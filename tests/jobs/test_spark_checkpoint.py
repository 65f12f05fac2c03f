import json
import re

import pytest

import tidegate
from tests.jobs.checkpoints import log_batch
from tidegate.enumerators.folders.opening import open_folder
from tidegate.errors import CheckpointError
from tidegate.jobs.spark_checkpoint import SparkCheckpoint
from tidegate.readers.s3.config import S3ConnectionConfig


def of(folder, source="s3"):
    return SparkCheckpoint(open_folder(str(folder), S3ConnectionConfig()), lambda offset: offset.source == source)


@pytest.mark.parametrize("version", [1, 2])
def test_a_source_is_found_among_the_others_of_its_query_batch_by_batch(tmp_path, version):
    log = {"source": "s3", "version": version, "others": ["-", "17", '{"orders":{"0":3}}', json.dumps({"v": 1})]}
    for number in (9, 10, 11):
        log_batch(tmp_path, number, {"a": number}, state={"n": number}, committed=number < 11, **log)
    checkpoint = of(tmp_path)
    assert [(batch.number, batch.end.progress.positions, batch.is_committed) for batch in checkpoint.batches()] == [
        (9, {"a": 9}, True),
        (10, {"a": 10}, True),
        (11, {"a": 11}, False),
    ]
    assert checkpoint.last_committed().enumerator == {"n": 10}
    assert of(tmp_path, "kafka").batches() == []


def test_a_checkpoint_that_is_not_there_yet_has_no_batch(tmp_path):
    assert (of(tmp_path / "none").batches(), of(tmp_path / "none").last_committed()) == ([], None)


def test_an_offset_of_a_newer_tidegate_is_an_error(tmp_path):
    log_batch(tmp_path, 0, {"a": 1}, source="s3")
    path = tmp_path / "offsets" / "0"
    path.write_text(re.sub(r'"v": \d+', '"v": 99', path.read_text()))
    with pytest.raises(CheckpointError, match="was written by a newer tidegate"):
        of(tmp_path).batches()


def test_what_spark_itself_writes_is_understood(spark, bucket, tmp_path):
    bucket.put_rows("a.parquet", [(1, 1)])
    source = tidegate.S3Source(path=bucket.path, state_location=str(tmp_path / "state"), **bucket.connection)
    query = source.read_stream(spark).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "point"))
    query.trigger(availableNow=True).start().awaitTermination()
    (batch,) = of(tmp_path / "point").batches()
    assert (batch.number, list(batch.end.progress.positions.values()), batch.is_committed) == (0, [1], True)
