"""Sources without an index: log files that only grow; and what enumerators store."""

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tidegate import KafkaSource, S3Source
from tidegate.connector import Extent, Head, Horizon, ReaderPeek, SplitEnumerator, SplitReader
from tidegate.errors import CheckpointError


class LogReader(SplitReader):
    def __init__(self, source):
        self.folder = source

    def read(self, task):
        for wanted in task.ranges:
            lines = (self.folder / wanted.split_id).read_text().splitlines()[wanted.start : wanted.end]
            times = [json.loads(line)["at"] for line in lines]
            positions = range(wanted.start, wanted.start + len(lines))
            yield pa.record_batch([pa.array(positions, pa.int64()), pa.array(times, pa.int64())], ["position", "at"])


# The page on writing a connector shows this class.
class LogEnumerator(ReaderPeek, SplitEnumerator):
    def __init__(self, source) -> None:
        super().__init__(LogReader(source), self.heads_in, self.extents)
        self._folder = source

    def heads_in(self, batch: pa.RecordBatch, horizon: Horizon) -> Iterator[Head]:
        for position, at in zip(batch["position"].to_pylist(), batch["at"].to_pylist(), strict=True):
            if at is not None:
                yield Head(position, at)

    def discover(self):
        return [file.name for file in self._folder.glob("*.log")]

    def starts(self, splits, *, first):
        return {split: extent.begin for split, extent in self.extents(splits).items()}

    def extents(self, splits):
        files = {split: self._folder / split for split in splits}
        return {split: Extent(0, file.read_text().count("\n")) for split, file in files.items() if file.exists()}


@pytest.fixture
def logs(tmp_path):
    def append(name, *times):
        with (tmp_path / name).open("a") as file:
            file.writelines(json.dumps({"at": at}) + "\n" for at in times)

    append("a.log", None, 5, 7)
    append("b.log", 6)
    return tmp_path, append


def test_a_peek_finds_the_first_record_to_align_by(logs):
    folder, _ = logs
    assert LogEnumerator(folder).peek({"a.log": 0, "b.log": 1}, Horizon()) == {"a.log": Head(1, 5), "b.log": None}


def test_a_peek_needs_no_earlier_call_of_extents_for_its_split(logs):
    """Extents of other splits, such as those for which starts() asks, hide none."""
    folder, _ = logs
    enumerator = LogEnumerator(folder)
    enumerator.starts(["b.log"], first=False)
    assert enumerator.peek({"a.log": 2}, Horizon()) == {"a.log": Head(2, 7)}


def test_a_peek_reads_up_to_the_present_end(logs):
    folder, append = logs
    enumerator = LogEnumerator(folder)
    assert enumerator.peek({"b.log": 1}, Horizon()) == {"b.log": None}
    append("b.log", 9)
    assert enumerator.peek({"b.log": 1}, Horizon()) == {"b.log": Head(1, 9)}


def test_a_split_that_has_vanished_has_no_record(logs):
    folder, _ = logs
    (folder / "b.log").unlink()
    assert LogEnumerator(folder).peek({"b.log": 0}, Horizon()) == {"b.log": None}


TOPIC = KafkaSource(bootstrap_servers="nowhere:1", subscribe=["orders"])
BUCKET = S3Source(path="s3://bucket", state_location="/nowhere")
BEGUN = {"owner": "a", "number": 1, "seen": None}


@pytest.mark.parametrize(
    ("source", "state", "name"),
    [
        (TOPIC, {"cluster": 5}, "cluster"),
        (TOPIC, {"event_time_unit": "eon"}, "event_time_unit"),
        *((BUCKET, {key: BEGUN[key] for key in BEGUN if key != name}, name) for name in BEGUN),
        (BUCKET, {**BEGUN, "number": "1"}, "number"),
        (BUCKET, {**BEGUN, "seen": {"runs": [5], "horizon": None, "newest": None}}, "seen.runs.0"),
        (BUCKET, {**BEGUN, "of_a_newer_version": 1}, "of_a_newer_version"),
    ],
)
def test_every_source_looks_at_its_snapshot_before_it_asks_anybody(source, state, name):
    with pytest.raises(CheckpointError, match=f"'{name}' of its enumerator is not as it was written") as raised:
        source.enumerator(state)
    assert "\n" not in str(raised.value)
