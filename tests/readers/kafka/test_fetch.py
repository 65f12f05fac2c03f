"""Fetch responses that are damaged on the way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kafka.fetch_responses import BY_ID, BY_NAME, ORDERS_ID, response
from tidegate.errors import CorruptDataError
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.fetch import read_fetch_response

VERSIONS = pytest.mark.parametrize("version", [BY_NAME, BY_ID])


def read(data: bytes, version: int) -> list[Any]:
    return list(read_fetch_response(memoryview(data), version, {"orders": ORDERS_ID}))


@VERSIONS
def test_a_response_is_read(version: int) -> None:
    ((partition, error_code, fetched),) = read(response(version), version)
    assert (partition, error_code, bytes(fetched.records)) == (TopicPartition("orders", 3), 0, b"records")
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.aborted) == (100, 90, ((7, 15),))


@VERSIONS
def test_a_response_that_ends_too_early_is_corrupt_wherever_it_ends(version: int) -> None:
    whole = response(version)
    whole = (
        whole.removesuffix(b"\0") if version == BY_ID else whole
    )  # this byte belongs to the response, but is not read
    for end in range(len(whole)):
        with pytest.raises(CorruptDataError, match=f"^a fetch response of {end} bytes is broken at byte "):
            read(whole[:end], version)


@pytest.mark.parametrize("length", [-2, -(2**31), 2**31 - 1])
def test_a_length_that_cannot_be_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptDataError, match="is broken at byte"):
        read(response(BY_NAME, length=length), BY_NAME)


def test_a_length_of_variable_size_that_cannot_be_is_corrupt() -> None:
    whole = response(BY_ID, b"")
    for length in (b"\xff\xff\xff\xff\x0f", b"\x80" * 100):
        with pytest.raises(CorruptDataError, match="is broken at byte"):
            read(whole[:-4] + length + whole[-3:], BY_ID)


def test_a_name_that_is_none_is_corrupt() -> None:
    with pytest.raises(CorruptDataError, match="is broken at byte"):
        read(response(BY_NAME, topic=b"\xff"), BY_NAME)
