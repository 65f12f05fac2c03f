"""The options for records that are set aside: ``badRecordsPath`` and ``badRecordsTopic``."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.kafka.bad_records import BadRecordFile, BadRecordPlace, BadRecordTopic, SupportsFiles

__all__ = ["bad_record_place", "check_bad_records"]


def check_bad_records(path: str | None, topic: str | None, policy: EventTimePolicy, read: Collection[str]) -> None:
    """Raise ValueError for options that contradict each other, or the policy, or the topics that are read."""
    if path is None and topic is None:
        return
    if path is not None and topic is not None:
        raise ValueError("the options badRecordsPath and badRecordsTopic exclude each other; set one of them")
    option = "badRecordsTopic" if path is None else "badRecordsPath"
    if policy.bad == "ignore":
        raise ValueError(
            f"{option} is set, but badEventTime is 'ignore', which refuses no record; set it to fail or "
            "record-timestamp"
        )
    if policy.future == "fail":
        # Such a record is not bad, only early: read later, it would be a row of the query.
        raise ValueError(
            f"{option} is set, but futureEventTime is 'fail', which refuses records by the time of the clock; set it "
            "to ignore or hold"
        )
    if topic in read:
        raise ValueError(f"badRecordsTopic is {topic!r}, which the query itself reads")


def bad_record_place(
    folder: SupportsFiles | None, topic: str | None, event_times: RecordTimes
) -> BadRecordPlace | None:
    """Return the place for records that their event times set aside."""
    if folder is not None:
        return BadRecordFile(folder, f"{event_times.name} {event_times.policy.bad}")
    return None if topic is None else BadRecordTopic(topic)
