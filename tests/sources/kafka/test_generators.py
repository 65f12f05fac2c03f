"""Options of watermarks that a user's generator or marks in records give."""

import pytest

import tidegate
from tests.sources.memory import MemorySource
from tidegate import WatermarkStrategy
from tidegate.errors import OptionError
from tidegate.watermarks import AscendingTimestampsWatermarks


def test_a_timestamp_assigner_of_the_strategy_is_the_event_time_of_the_source():
    strategy = WatermarkStrategy.for_generator(AscendingTimestampsWatermarks).with_timestamp_assigner("json:/at")
    fields = {"bootstrap_servers": "localhost:9092", "subscribe": ["orders"]}
    source = tidegate.KafkaSource(**fields, watermarks=strategy)
    assert source == tidegate.KafkaSource(**fields, watermarks=strategy, event_time="json:/at")
    assert source.event_time == "json:/at"
    objects = tidegate.S3Source(path="s3://b/p", watermarks=strategy.with_timestamp_assigner("column:at"))
    assert objects.event_time == "column:at"
    with pytest.raises(OptionError, match="event_time is set, and watermarks has a timestamp assigner; set one"):
        tidegate.KafkaSource(**fields, watermarks=strategy, event_time="timestamp")
    with pytest.raises(OptionError, match="json"):
        tidegate.S3Source(path="s3://b/p", watermarks=strategy)
    with pytest.raises(OptionError, match="a timestamp assigner, but memory has no option event_time"):
        MemorySource(path="x", watermarks=strategy)


def test_marks_in_headers_imply_headers():
    fields = {"bootstrap_servers": "localhost:9092", "subscribe": ["orders"]}
    assert "headers" not in tidegate.KafkaSource(**fields).arrow_schema.names
    assert "headers" in tidegate.KafkaSource(**fields, watermark_from="header:complete").arrow_schema.names


@pytest.mark.parametrize(
    "fields",
    [
        {"watermarks": WatermarkStrategy.for_generator(AscendingTimestampsWatermarks)},
        {"watermark_from": "json:/at", "watermarks": WatermarkStrategy.no_watermarks()},
    ],
)
def test_windows_go_by_generated_watermarks_too(fields):
    source = tidegate.KafkaSource(bootstrap_servers="localhost:9092", subscribe=["orders"], **fields)
    assert source.has_watermarks
