"""The option for records that are set aside, ``badRecordsPath``."""

from __future__ import annotations

from tidegate.readers.bad_records.files import BadRecordFolder
from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.kafka.bad_records import BadRecordFile


def check_bad_records(path: str | None, policy: EventTimePolicy) -> None:
    """Raise ValueError for a place that contradicts the policy."""
    if path is None:
        return
    if policy.bad == "ignore":
        raise ValueError(
            "badRecordsPath is set, but badEventTime is 'ignore', which refuses no record; set it to fail or "
            "record-timestamp"
        )
    if policy.future == "fail":
        # Such a record is not bad, only early: read later, it would be a row of the query.
        raise ValueError(
            "badRecordsPath is set, but futureEventTime is 'fail', which refuses records by the time of the clock; set "
            "it to ignore or hold"
        )


def bad_record_file(folder: BadRecordFolder | None, event_times: RecordTimes) -> BadRecordFile | None:
    """Return the files for records that their event times set aside."""
    return None if folder is None else BadRecordFile(folder, f"{event_times.name} {event_times.policy.bad}")
