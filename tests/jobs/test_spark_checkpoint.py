import json
import re

import pytest

from tests.jobs.checkpoints import log_batch
from tidegate.enumerators.folders.folder import LocalFolder
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import CheckpointError
from tidegate.jobs.spark_checkpoint import BatchLogs


def of(folder, source="s3"):
    return BatchLogs.read(LocalFolder(folder, "checkpoint")).of_source(lambda offset: offset.source == source)


@pytest.mark.parametrize("version", [1, 2])
def test_a_source_is_found_among_the_others_of_its_query_batch_by_batch(tmp_path, version):
    log = {"source": "s3", "version": version, "others": ["-", "17", '{"orders":{"0":3}}', json.dumps(INITIAL_OFFSET)]}
    for number in (9, 10, 11):
        log_batch(tmp_path, number, {"a": number}, state={"n": number}, committed=number < 11, **log)
    assert [(batch.number, batch.end.progress.positions, batch.is_committed) for batch in of(tmp_path)] == [
        (9, {"a": 9}, True),
        (10, {"a": 10}, True),
        (11, {"a": 11}, False),
    ]
    assert of(tmp_path, "kafka") == of(tmp_path / "none") == []


def test_an_offset_of_a_newer_tidegate_is_an_error(tmp_path):
    log_batch(tmp_path, 0, {"a": 1}, source="s3")
    path = tmp_path / "offsets" / "0"
    path.write_text(re.sub(r'"v": \d+', '"v": 99', path.read_text()))
    with pytest.raises(CheckpointError, match="was written by a newer tidegate"):
        of(tmp_path)


@pytest.mark.parametrize("stored", ["", "v1", "v7\n{}", 'v1\n{"batchWatermarkMs":"x"}\n{}', "v1\n[]\n{}"])
def test_a_damaged_log_is_named(tmp_path, stored):
    log_batch(tmp_path, 0, {"a": 1}, source="s3")
    (tmp_path / "offsets" / "1").write_text(stored)
    with pytest.raises(CheckpointError, match="offsets/1 is damaged"):
        of(tmp_path)
