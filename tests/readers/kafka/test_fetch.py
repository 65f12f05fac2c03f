"""Fetch responses, whole and damaged on the way."""

from contextlib import suppress
from uuid import UUID

import pytest

from tests.support.kafka.lab import BY_ID, BY_NAME, answered, response
from tidegate.errors import CorruptDataError
from tidegate.readers.kafka.config import TopicPartition

VERSIONS = pytest.mark.parametrize("version", [BY_NAME, BY_ID])


@VERSIONS
def test_a_response_is_read(version):
    ((partition, error_code, fetched),) = answered(response(version), version)
    assert (partition, error_code, bytes(fetched.records)) == (TopicPartition("orders", 3), 0, b"records")
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.aborted) == (100, 90, ((7, 15),))


@VERSIONS
def test_a_response_that_ends_too_early_gives_no_other_records(version):
    whole = response(version)
    for end in range(len(whole)):
        with suppress(CorruptDataError):
            for _, _, fetched in answered(whole[:end], version):
                assert b"records".startswith(bytes(fetched.records))


def test_a_topic_that_was_not_requested_is_corrupt():
    with pytest.raises(CorruptDataError, match="a topic id that was not requested"):
        answered(response(BY_ID), BY_ID, UUID(int=8))
