"""The lease of a state location, on a disk and in a bucket of a real endpoint: who gets it, and who loses it."""

import json
import os
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from tests.enumerators.s3.objects import Endpoint
from tests.support.command import await_that
from tests.support.logs import Clock
from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.errors import CheckpointError, ConnectorError

HOLD = """
import sys
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.enumerators.folders.opening import open_folder
from tidegate.readers.s3.config import S3ConnectionConfig
Lease(open_folder(sys.argv[1], S3ConnectionConfig()), lease_s=5).acquire("killed")
print("held", flush=True)
sys.stdin.read()
"""


class Rival(Clock):
    """Lets others act while someone sleeps."""

    def __init__(self, meanwhile):
        super().__init__()
        self.meanwhile = meanwhile

    def sleep(self, seconds):
        super().sleep(seconds)
        self.meanwhile(self.now)


def lease(folder, clock, lease_s=30.0):
    """Return a lease that only a test renews."""
    return Lease(folder, lease_s=lease_s, clocks=clock.clocks)


@pytest.fixture
def folder(location, config):
    return open_folder(location, config)


def test_a_released_lease_is_free_at_once(folder):
    clock = Clock()
    first, second = lease(folder, clock), lease(folder, clock)
    first.acquire("one")
    first.check()
    first.release()
    first.release()
    second.acquire("two")
    second.check()
    assert clock.now < 1


def test_a_live_query_is_not_disturbed(folder):
    first = lease(folder, Clock())
    first.acquire("one")
    watching = Rival(lambda now: first.renew() if now > 5 else None)
    with pytest.raises(
        ConnectorError, match=rf"in use by another query, process {os.getpid()} on .*its own stateLocation"
    ):
        lease(folder, watching).acquire("two")
    assert 5 < watching.now < 8
    first.renew()
    first.check()


def test_a_dead_query_is_waited_for_until_its_own_lease_is_over(folder):
    lease(folder, Clock(), lease_s=60).acquire("dead")
    clock = Clock()
    second = lease(folder, clock, lease_s=30)
    second.acquire("two")
    assert 60 <= clock.now < 63
    second.check()


def test_a_restart_takes_its_own_lease_at_once_and_the_earlier_run_learns_it(folder):
    clock = Clock()
    first, again = lease(folder, clock), lease(folder, clock)
    first.acquire("one")
    again.acquire("one")
    assert clock.now < 1
    with pytest.raises(ConnectorError, match="was taken over by another run, process"):
        first.renew()
    with pytest.raises(ConnectorError, match="nor two runs a checkpoint"):
        first.check()
    first.release()
    again.renew()
    again.check()


def test_who_slept_for_longer_than_its_lease_goes_on_if_nobody_came(folder):
    clock = Clock()
    first = lease(folder, clock)
    first.acquire("one")
    clock.now += 1_000
    first.check()
    clock.now += 1_000
    lease(folder, Clock()).acquire("two")
    with pytest.raises(ConnectorError, match="taken over"):
        first.check()


def test_a_lease_that_was_deleted_is_written_again(folder):
    first = lease(folder, Clock())
    first.acquire("one")
    folder.delete("lease.json")
    first.renew()
    assert json.loads(folder.read("lease.json").data)["owner"] == "one"


def damaged(**change):
    whole = {"owner": "two", "holder": "x", "place": "there", "lease_s": 30.0, "process": "", "renewal": 0}
    return json.dumps({**whole, "released": False, **change}).encode()


@pytest.mark.parametrize(
    "data",
    [
        *(b"{}", b"[]", b"7", b"{", b"\xff", b"[" * 100_000),
        *(damaged(lease_s=each) for each in (1e9, float("nan"), float("inf"), -1, 0, "30", None)),
        *(damaged(**change) for change in ({"renewal": "1"}, {"process": 7}, {"owner": None}, {"more": 1})),
    ],
)
def test_a_file_that_is_no_lease_is_named(folder, data):
    folder.create("lease.json", data)
    with pytest.raises(CheckpointError, match=r"lease\.json in the state location .* is not a lease of this version"):
        lease(folder, Clock()).acquire("one")


@pytest.mark.parametrize("conditions", ["ignored", "refused"])
def test_an_endpoint_that_does_not_keep_conditions_is_refused(conditions, server, tmp_path):
    with closing(server.client()) as client:
        folder = open_folder(f"s3://state/{tmp_path.name}", Endpoint(client, conditions))
        with pytest.raises(ConnectorError, match=f"the state location {folder.address} needs an endpoint with cond"):
            lease(folder, Clock()).acquire("one")


class Slow:
    """A folder whose next replacement is written at once, but whose answer comes late and after a repetition."""

    def __init__(self, folder, clock, seconds):
        self._folder, self._clock, self._seconds = folder, clock, seconds
        self.is_slow, self.when_read = False, None

    def __getattr__(self, name):
        return getattr(self._folder, name)

    def replace(self, *arguments):
        version = self._folder.replace(*arguments)
        if not self.is_slow:
            return version
        self._clock.now += self._seconds
        return None

    def read(self, name):
        stored = self._folder.read(name)
        if self.is_slow:
            self.is_slow = False
            self.when_read()
        return stored


def test_a_renewal_that_takes_as_long_as_the_lease_is_none(folder):
    clock = Clock()
    slow = Slow(folder, clock, 30)
    first = lease(slow, clock, lease_s=30)
    first.acquire("one")
    clock.now += 30
    slow.is_slow, slow.when_read = True, lambda: lease(folder, Clock()).acquire("two")
    with pytest.raises(ConnectorError, match="was taken over by another run"):
        first.check()


def test_a_thread_renews_it_until_it_is_released(folder):
    mine = Lease(folder, lease_s=0.3)
    mine.acquire("one")
    await_that(lambda: json.loads(folder.read("lease.json").data)["renewal"] > 3)
    mine.check()
    mine.release()
    assert json.loads(folder.read("lease.json").data)["released"]
    assert not [thread for thread in threading.enumerate() if thread.name == "tidegate-lease"]


@pytest.fixture
def holder(tmp_path):
    """Another process, which holds the lease for five seconds at a time."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_of_a_process_that_is_gone_the_lease_is_free_at_once(holder, tmp_path, config):
    folder = open_folder(str(tmp_path), config)
    with pytest.raises(ConnectorError, match=f"in use by another query, process {holder.pid} on "):
        Lease(folder).acquire("other")
    holder.kill()
    holder.wait()
    clock = Clock()
    other = lease(folder, clock)
    other.acquire("other")
    assert clock.now < 1
    other.check()
