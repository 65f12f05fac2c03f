"""Decoder processes: their start, their sharing and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from unittest import mock

import pytest

from tests.readers.formats.guarded.fatal_format import SCHEMA
from tests.readers.formats.guarded.objects import guarded, objects, processes_of
from tests.support.objects.lab import chunk
from tests.support.waiting import PATIENCE_S, await_that
from tidegate.errors import ConnectorError
from tidegate.readers.formats.guarded import process as decoder_process
from tidegate.readers.formats.guarded.process import decoder
from tidegate.readers.objects.values import ChunkSurvey

pytestmark = pytest.mark.slow  # the tests start decoder processes, and wait for their end


def test_a_process_that_does_not_start_prints_why(monkeypatch, capfd):
    monkeypatch.setattr(decoder_process, "_PROGRAM", "raise ValueError('no such thing')  # {} {}")
    with pytest.raises(ConnectorError, match=r"does not start: exit code 1$"):
        decoder_process.DecoderProcess()
    assert capfd.readouterr().err.endswith("ValueError: no such thing\n")


def test_a_process_that_hangs_before_it_begins_is_given_up(monkeypatch):
    monkeypatch.setattr(decoder_process, "_PROGRAM", "import signal; signal.pause()  # {} {}")
    monkeypatch.setattr(decoder_process, "START_S", 0.1)
    before = descriptors(), children()
    with pytest.raises(ConnectorError, match=r"does not start: no answer within 0\.1 s$"):
        decoder_process.DecoderProcess()
    assert (descriptors(), children()) == before


@pytest.mark.parametrize(
    ("problem", "raised"),
    [(OSError(24, "Too many open files"), ConnectorError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_process_that_does_not_start_leaves_nothing_behind(problem, raised):
    before = descriptors(), children()
    with mock.patch.object(Connection, "recv", side_effect=problem), pytest.raises(raised):
        decoder_process.DecoderProcess()
    assert (descriptors(), children()) == before


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def children() -> set[str]:
    found: set[str] = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has just ended
            found.update((thread / "children").read_text().split())
    return found


def test_idle_processes_that_ended_are_dropped_and_a_live_one_is_lent():
    with decoder() as lent_last, decoder() as waiting_longest:
        pass
    process_id = lent_last._process.pid
    os.kill(process_id, signal.SIGKILL)
    await_that(lambda: _can_be_reaped(process_id))
    with decoder() as lent:
        assert lent is waiting_longest
    assert not Path(f"/proc/{process_id}").exists()
    assert lent_last._connection.closed
    os.kill(waiting_longest._process.pid, signal.SIGKILL)
    await_that(lambda: _can_be_reaped(waiting_longest._process.pid))
    with decoder() as lent:
        assert not lent.has_ended


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_begins_with_no_decoder_and_harms_none():
    store = objects(x="1")
    [process_id] = processes_of(store, "x")
    reader, writer = os.pipe()
    with ExitStack() as others:  # what threads of the parent hold
        for _ in range(decoder_process.MOST_AT_ONCE):
            others.enter_context(decoder_process.turn())
        if not (forked := os.fork()):
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(PATIENCE_S)  # one that waits for them would never end
                guarded(store).survey(store.listed("x"), "at")
                os.write(writer, str(*processes_of(store, "x")).encode())
            finally:
                os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as report:
        assert int(report.read()) not in {process_id, forked}
    os.waitpid(forked, 0)
    assert processes_of(store, "x") == [process_id]


def test_many_threads_share_a_few_processes():
    store = objects(x="sleep 0.05")
    made, before = guarded(store), children()
    with ThreadPoolExecutor(12) as pool:
        surveys = list(pool.map(lambda _: made.survey(store.listed("x"), "at"), range(24)))
    assert surveys == [[ChunkSurvey(0, 10, 1, None)]] * 24
    assert len(children() - before) <= decoder_process.MOST_AT_ONCE


def test_a_read_that_is_given_up_leaves_no_process():
    store = objects(x="1\nsleep 600")
    batches = guarded(store).read(chunk(store.listed("x")), SCHEMA)
    process_id = next(batches).column("process")[0].as_py()
    batches.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)


_OWNER = """
import sys
sys.path[:] = {path!r}
from tests.readers.formats.guarded.objects import SCHEMA, chunk, guarded, objects
store = objects(x="1\\nsleep 600")
batches = guarded(store).read(chunk(store.listed("x")), SCHEMA)
print(next(batches).column("process")[0].as_py(), flush=True)
next(batches)
"""


def test_a_busy_process_ends_with_the_one_that_started_it():
    program = _OWNER.format(path=sys.path)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as owner:
        process_id = int(owner.stdout.readline())
        assert Path(f"/proc/{process_id}").exists()
        owner.kill()
    await_that(lambda: not Path(f"/proc/{process_id}").exists() or _is_dead(process_id))


def _is_dead(process_id: int) -> bool:
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _can_be_reaped(child: int) -> bool:
    # A child is a zombie once its first thread is gone.  It can be reaped only when its other threads are gone, too.
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
