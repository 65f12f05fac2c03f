"""Frames end at their deadline, however slowly they come, and their length is checked before it is used."""

import socket
import struct
import threading
import time
import tracemalloc

import pytest

from tidegate.readers.kafka.wire.frames import LARGEST_FRAME, FrameSocket, FrameTooLargeError


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    frames = FrameSocket(ours)
    yield frames, theirs
    frames.close()
    theirs.close()


def soon(seconds=10):
    return time.monotonic() + seconds


def test_frames_are_received_whole_one_after_the_other(pair):
    frames, theirs = pair
    large = bytes(range(256)) * 1000
    sender = threading.Thread(
        target=theirs.sendall, args=(struct.pack(">i", 4) + b"abcd" + struct.pack(">i", len(large)) + large,)
    )
    sender.start()
    assert frames.receive(soon()) == b"abcd"
    assert frames.receive(soon()) == large
    sender.join()


@pytest.mark.parametrize("before", [0, 2, 4, 8])
def test_a_deadline_holds_though_a_byte_comes_before_each_time_out(pair, before):
    frames, theirs = pair
    frame = struct.pack(">i", 100) + bytes(100)
    theirs.sendall(frame[:before])
    over = threading.Event()

    def trickle():
        for index in range(before, len(frame)):
            if over.wait(0.1):
                return
            theirs.sendall(frame[index : index + 1])

    sender = threading.Thread(target=trickle)
    sender.start()
    try:
        with pytest.raises(TimeoutError) as raised:
            frames.receive(soon(0.5))
    finally:
        over.set()
        sender.join()
    assert "it sent only" in str(raised.value)


def test_silence_is_reported_as_such(pair):
    frames, _ = pair
    with pytest.raises(TimeoutError, match=r"^it does not answer$"):
        frames.receive(soon(0.05))
    with pytest.raises(TimeoutError, match=r"^it does not answer$"):
        frames.receive(soon(-1))


@pytest.mark.parametrize("size", [LARGEST_FRAME + 1, 0x15030300, 2**31 - 1])
def test_nothing_is_allocated_for_a_frame_that_is_too_large(pair, size):
    frames, theirs = pair
    theirs.sendall(struct.pack(">i", size))
    tracemalloc.start()
    try:
        with pytest.raises(FrameTooLargeError, match=f"a frame of {size} bytes, but at most {LARGEST_FRAME} are taken"):
            frames.receive(soon())
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 3])
def test_a_length_that_is_none_ends_the_connection(pair, size):
    frames, theirs = pair
    theirs.sendall(struct.pack(">i", size))
    with pytest.raises(ConnectionAbortedError, match=f"^it sent a frame of {size} bytes$"):
        frames.receive(soon())


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x09abcd"])
def test_an_end_within_a_frame_is_reported(pair, sent):
    frames, theirs = pair
    theirs.sendall(sent)
    theirs.close()
    with pytest.raises(ConnectionResetError, match=r"^it closed the connection$"):
        frames.receive(soon())


def test_what_was_said_before_the_close_is_heard(pair):
    frames, theirs = pair
    theirs.sendall(struct.pack(">i", 4) + b"no!!")
    theirs.close()
    with pytest.raises(BrokenPipeError):
        frames.send(b"hello", soon())
    assert frames.receive(soon()) == b"no!!"
