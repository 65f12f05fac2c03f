"""The messages of decoder processes: any other bytes are malformed, and no part of them is used."""

from __future__ import annotations

import json
import pickle
import socket
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import BadRecordError, ConnectorError, CorruptDataError, OptionError
from tidegate.readers.formats.guarded.channel import Channel, MalformedMessageError
from tidegate.readers.formats.guarded.messages import FETCH, RAISES, RETURNS, error_of, packed, packed_error, unpacked
from tidegate.readers.objects.values import ChunkSurvey, TimeRange

SCHEMA = pa.schema([pa.field("a", pa.struct([("b", pa.timestamp("us", "UTC"))]), nullable=False, metadata={"k": "v"})])
SURVEY = [ChunkSurvey(0, 5, 2, TimeRange(-1, 1 << 60), 1, exact=False, malformed_rows=3), ChunkSurvey(5, 9, 1, None)]


@pytest.mark.parametrize("results", [[SCHEMA], [SURVEY, [], SURVEY], []])
def test_results_arrive_as_they_are(results):
    assert unpacked(packed(RETURNS, results)) == (RETURNS, results)


@pytest.mark.parametrize(
    "problem",
    [BadRecordError("odd"), CorruptDataError("bad"), OptionError("worse"), ConnectorError("é\n"), MemoryError()],
)
def test_errors_arrive_as_they_are(problem):
    _, *values = unpacked(packed(RAISES, *packed_error(problem)))
    made = error_of(*values)
    assert (type(made), str(made)) == (type(problem), str(problem))


def test_errors_of_others_are_reported_as_arrows_or_by_their_names():
    assert isinstance(error_of(*packed_error(pa.ArrowInvalid("deep"))), pa.ArrowException)
    assert repr(error_of(*packed_error(IndexError("far")))) == repr(RuntimeError("IndexError: far"))


@pytest.mark.parametrize(
    "message",
    [
        ["fetch", 1, 2, 3],
        ["fetch", 1, 2, 3, "4"],
        ["fetch", 1, 2, 3, True],
        ["returns", {}],
        ["returns", [{"survey": [0, 5, 2, [1, "2"], 0, True, 0]}]],
        ["returns", [{"survey": [0, 5, 2]}]],
        ["returns", [{"schema": "AAAA"}]],
        ["returns", [{"class": "os.system"}]],
        ["raises", None, "no"],
        ["unheard", 1],
        [[], 1],
        {},
        None,
    ],
)
def test_what_has_another_shape_is_malformed(message):
    with pytest.raises(MalformedMessageError):
        unpacked(json.dumps(message).encode())


@given(st.binary())
def test_whatever_bytes_arrive_they_are_malformed(data):
    with pytest.raises(MalformedMessageError):
        unpacked(data)


def test_pickles_and_endless_nesting_are_malformed():
    for data in (pickle.dumps((FETCH, 1, 2, 3, 4)), b"[" * 1_000_000):
        with pytest.raises(MalformedMessageError):
            unpacked(data)


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


@pytest.mark.parametrize(("head", "data"), [(0xFFFF_FFFF, 0), (0, 11), (0, (1 << 64) - 1)])
def test_lengths_beyond_the_bounds_are_malformed(ends, head, data):
    ends[0].sendall(struct.pack("<IQ", head, data))
    with pytest.raises(MalformedMessageError):
        Channel(ends[1]).receive(10)


def test_nobody_waits_for_ever_in_the_midst_of_a_message(ends):
    channel = Channel(ends[0], 0.2)
    with pytest.raises(BlockingIOError):
        channel.send(b"", bytes(16 << 20))
    ends[1].sendall(b"half")
    with pytest.raises(BlockingIOError):
        channel.receive()
