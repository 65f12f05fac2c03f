import pytest

from tidegate import KafkaSource, S3Source
from tidegate.errors import CheckpointError

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
