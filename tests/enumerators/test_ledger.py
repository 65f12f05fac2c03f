"""The ledger and its lease, on a disk and in a bucket of a real endpoint."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.enumerators.logs import Clock
from tests.waiting import await_that
from tidegate.enumerators.lease import Lease
from tidegate.enumerators.ledger import Ledger
from tidegate.enumerators.ledger_folder import open_folder
from tidegate.errors import CheckpointError, ConnectorError, ContractError, DeadlineError, OptionError

HOLD = """
import sys
from tidegate.enumerators.lease import Lease
from tidegate.enumerators.ledger_folder import open_folder
from tidegate.readers.s3_config import S3ConnectionConfig
Lease(open_folder(sys.argv[1], S3ConnectionConfig()), lease_s=1).acquire("killed")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["disk", "bucket"])
def location(request, tmp_path):
    return str(tmp_path / "a state") if request.param == "disk" else f"s3://state/a {tmp_path.name}+%41/"


@pytest.fixture
def ledger(location, config):
    return Ledger(location, config)


@pytest.fixture
def folder(location, config):
    return open_folder(location, config)


def test_what_is_written_is_read_and_stays(ledger):
    assert ledger.names() == []
    ledger.write("00000001-ab", b"one")
    ledger.write("00000001-ab", b"one")
    ledger.write("ünï +%41", b"")
    assert ledger.names() == ["00000001-ab", "ünï +%41"]
    assert ledger.read("00000001-ab") == b"one"
    assert ledger.read("ünï +%41") == b""
    with pytest.raises(ContractError, match=r"'00000001-ab' in the state location .* has another content"):
        ledger.write("00000001-ab", b"other")
    assert ledger.read("00000001-ab") == b"one"


def test_a_file_that_the_checkpoint_names_and_is_gone_is_an_error(ledger):
    with pytest.raises(CheckpointError, match=r"has lost '00000007-ab', which the checkpoint names"):
        ledger.read("00000007-ab")
    with pytest.raises(CheckpointError, match=re.escape(ledger.address)):
        ledger.read("00000007-ab")


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "../up"])
def test_a_name_that_leads_elsewhere_is_refused(ledger, name):
    with pytest.raises(ContractError, match="cannot be the name"):
        ledger.write(name, b"")


def test_only_old_files_that_nobody_names_are_swept(location, config):
    now = [0.0]
    ledger = Ledger(location, config, wall_clock=lambda: now[0])
    lease = ledger.lease()
    lease.acquire("me")
    for name in ("kept", "orphan", "other orphan"):
        ledger.write(name, name.encode())
    now[0] = max(file.written_s for file in ledger._files.files().values()) + 9
    assert ledger.sweep(["kept", "not there"], older_than_s=10) == []
    now[0] += 2
    assert ledger.sweep(["kept", "not there"], older_than_s=10) == ["orphan", "other orphan"]
    assert ledger.names() == ["kept"]
    assert ledger.sweep({"kept"}, older_than_s=0) == []
    lease.check()
    lease.release()


def test_of_a_location_each_query_has_a_part_of_its_own(ledger):
    one, other = ledger.of_query("0a1b"), ledger.of_query("2c3d")
    for number, part in enumerate((ledger, one, other)):
        part.write("00000001-ab", b"%d" % number)
    assert [part.read("00000001-ab") for part in (ledger, one, other)] == [b"0", b"1", b"2"]
    one._wall_clock = lambda: 1e12
    assert one.sweep([], older_than_s=0) == ["00000001-ab"]
    assert [part.names() for part in (ledger, one, other)] == [["00000001-ab"], [], ["00000001-ab"]]


def test_what_each_query_keeps_is_known_and_forgotten_alone(ledger):
    assert ledger.queries() == {}
    for owner, sizes in {"0a1b": (1, 20), "2c3d": (300,)}.items():
        for size in sizes:
            ledger.of_query(owner).write(f"{size:08}-ab", b"x" * size)
    ledger.write("schema", b"")
    assert {owner: (kept.files, kept.bytes) for owner, kept in ledger.queries().items()} == {
        "0a1b": (2, 21),
        "2c3d": (1, 300),
    }
    assert ledger.queries()["2c3d"].written_s == ledger.of_query("2c3d")._files.files()["00000300-ab"].written_s
    ledger.forget("0a1b")
    ledger.forget("0a1b")
    assert (list(ledger.queries()), ledger.names()) == (["2c3d"], ["schema"])
    assert ledger.of_query("2c3d").names() == ["00000300-ab"]


def test_a_query_that_is_running_is_not_forgotten_but_others_and_stopped_ones_are(ledger):
    for owner in ("running", "other"):
        ledger.of_query(owner).write("a", b"")
    mine = ledger.lease()
    mine.acquire("running")
    ledger.lease = lambda: lease(ledger._root, Rival(lambda _: mine.renew()))
    with pytest.raises(ConnectorError, match=f"the query 'running' is running, .*{re.escape(ledger.address)}; stop it"):
        ledger.forget("running")
    ledger.forget("other")
    assert list(ledger.queries()) == ["running"]
    mine.release()
    ledger.forget("running")
    assert ledger.queries() == {}


def test_a_note_is_replaced_and_what_never_changes_is_not(ledger):
    assert ledger.noted("left-out") is None
    for note in (b"one", b"other", b"other"):
        ledger.note("left-out", note)
        assert ledger.noted("left-out") == note
    assert ledger.names() == ["left-out"]


def test_what_else_lies_in_the_location_is_left_alone(tmp_path, config):
    (tmp_path / "user.txt").write_text("theirs")
    ledger = Ledger(f"file://{tmp_path}", config, wall_clock=lambda: 1e12)
    ledger.write("orphan", b"")
    assert ledger.sweep([], older_than_s=0) == ["orphan"]
    assert (tmp_path / "user.txt").read_text() == "theirs"


def test_on_a_disk_files_are_whole_and_private(tmp_path, config):
    ledger = Ledger(str(tmp_path / "deep" / "state"), config)
    ledger.write("a", b"content")
    lease = ledger.lease()
    lease.acquire("me")
    lease.release()
    for folder in ("deep", "deep/state", "deep/state/ledger"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) & 0o077 == 0
    assert [path.name for path in (tmp_path / "deep/state/ledger").iterdir()] == ["a"]
    for path in (tmp_path / "deep/state").rglob("*"):
        assert path.is_dir() or stat.S_IMODE(path.stat().st_mode) == 0o600


def test_many_who_write_the_same_at_one_time_agree(ledger):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: ledger.write("same", b"x" * 100_000), range(16)))
    assert ledger.read("same") == b"x" * 100_000
    assert ledger.names() == ["same"]


@pytest.mark.parametrize(("location", "why"), [("s3://", "no bucket"), ("gs://b/x", "has to be a path"), (" ", "path")])
def test_a_location_that_is_none_is_refused(location, why, config):
    with pytest.raises(OptionError, match=f"^stateLocation is '{location}'.*{why}"):
        Ledger(location, config)


def test_a_file_that_cannot_be_looked_at_is_told_in_a_sentence(tmp_path, config):
    ledger = Ledger(str(tmp_path), config).of_query("owner")
    ledger.write("a", b"1")
    (tmp_path / "ledger" / "owner" / "loop").symlink_to("loop")
    with pytest.raises(ConnectorError, match=r"cannot read the state location .*owner"):
        ledger.names()


def test_a_location_that_cannot_be_used_is_named(tmp_path, config):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConnectorError, match=f"^cannot write to the state location {tmp_path}/file/ledger: "):
        Ledger(str(tmp_path / "file"), config).write("a", b"")
    with pytest.raises(OptionError, match="'no-such-bucket'"):
        Ledger("s3://no-such-bucket/x", config).write("a", b"")
    with pytest.raises(OptionError, match="'no-such-bucket'"):
        Ledger("s3://no-such-bucket/x", config).read("a")


def test_the_real_endpoint_keeps_conditions(server, config):
    assert open_folder("s3://state/conditions", config).keeps_conditions()


@pytest.mark.parametrize("conditions", ["kept", "ignored", "refused"])
def test_a_file_is_created_once_and_replaced_only_in_the_version_that_was_read(conditions, server, config, tmp_path):
    with closing(server.client()) as client:
        folder = open_folder(f"s3://state/{tmp_path.name}", Endpoint(client, conditions))
        assert folder.keeps_conditions() == (conditions == "kept")
        first = folder.create("a", b"1")
        assert first is not None
        assert folder.create("a", b"2") is None
        second = folder.replace("a", b"2", first)
        assert folder.replace("a", b"3", first) is None
        assert folder.read("a") == (b"2", second)
        folder.delete("a")
        folder.delete("a")
        assert folder.replace("a", b"3", second) is None
        assert folder.read("a") is None


def test_a_write_whose_answer_was_lost_is_no_other_ones(server, tmp_path):
    with closing(server.client()) as client:
        endpoint = Endpoint(client)
        ledger = Ledger(f"s3://state/{tmp_path.name}", endpoint)
        ledger.write("before", b"")
        endpoint.answers_lost = 1
        ledger.write("a", b"content")
        assert ledger.read("a") == b"content"
        lease = Lease(ledger._root, renewed_by_thread=False)
        for step in (lambda: lease.acquire("me"), lease.renew, lease.renew, lease.check):
            endpoint.answers_lost = 1
            step()
        endpoint.answers_lost = 0
        lease.release()


def test_an_endpoint_that_fails_is_an_error_after_the_deadline(server, tmp_path):
    with closing(server.client()) as client:
        endpoint = Endpoint(client)
        endpoint.deadline_s = 0.2
        endpoint.is_down = True
        with pytest.raises(DeadlineError, match=f"^cannot write to the state location s3://state/{tmp_path.name} "):
            Ledger(f"s3://state/{tmp_path.name}", endpoint).write("a", b"content")


class Endpoint:
    """A configuration whose client treats conditions as it is told to, and loses answers to writes."""

    deadline_s = 10

    def __init__(self, client, conditions="kept"):
        self._client, self._conditions, self.answers_lost, self.is_down = client, conditions, 0, False

    def client(self):
        return self

    def __getattr__(self, name):
        return getattr(self._client, name)

    def put_object(self, **request):
        conditions = {"IfMatch", "IfNoneMatch"} & request.keys()
        if conditions and self._conditions == "refused":
            raise ClientError(
                {"Error": {"Code": "NotImplemented"}, "ResponseMetadata": {"HTTPStatusCode": 501}}, "PutObject"
            )
        if self._conditions == "ignored":
            request = {key: value for key, value in request.items() if key not in conditions}
        if self.is_down:
            raise ClientError({"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}, "PutObject")
        answer = self._client.put_object(**request)
        if self.answers_lost:
            self.answers_lost -= 1
            raise ReadTimeoutError(endpoint_url="lost")
        return answer


def lease(folder, clock, lease_s=30.0) -> Lease:
    return Lease(folder, lease_s=lease_s, renewed_by_thread=False, clocks=clock.clocks)


class Rival(Clock):
    """Lets others act while someone sleeps."""

    def __init__(self, meanwhile):
        super().__init__()
        self.meanwhile = meanwhile

    def sleep(self, seconds):
        super().sleep(seconds)
        self.meanwhile(self.now)


def test_a_released_lease_is_free_at_once(folder):
    clock = Clock()
    first, second = lease(folder, clock), lease(folder, clock)
    first.acquire("one")
    first.check()
    first.release()
    first.release()
    second.acquire("two")
    second.check()
    assert clock.now == 0


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


def test_a_query_that_renews_at_the_last_moment_is_alive(folder):
    first = lease(folder, Clock())
    first.acquire("one")
    with pytest.raises(ConnectorError, match="in use by another query"):
        lease(folder, Rival(lambda now: first.renew() if now >= 30 else None)).acquire("two")
    first.renew()


def test_a_dead_query_is_waited_for_until_its_own_lease_is_over(folder):
    lease(folder, Clock(), lease_s=60).acquire("dead")
    clock = Clock()
    second = lease(folder, clock, lease_s=30)
    second.acquire("two")
    assert 60 <= clock.now < 63
    second.check()


def test_who_holds_a_lease_is_known_when_it_is_renewed_or_when_its_time_is_over(folder):
    clock = Clock()
    assert not lease(folder, clock).is_held_by("one")
    first = lease(folder, clock, lease_s=60)
    first.acquire("one")
    assert not lease(folder, clock).is_held_by("two")
    assert clock.now == 0
    alive, dead = Rival(lambda now: first.renew() if now > 5 else None), Clock()
    assert lease(folder, alive).is_held_by("one")
    assert 5 < alive.now < 8
    assert not lease(folder, dead).is_held_by("one")
    assert 60 <= dead.now < 63
    first.release()
    assert not lease(folder, clock).is_held_by("one")
    assert clock.now == 0


def test_a_restart_takes_its_own_lease_at_once_and_the_earlier_run_learns_it(folder):
    clock = Clock()
    first, again = lease(folder, clock), lease(folder, clock)
    first.acquire("one")
    again.acquire("one")
    assert clock.now == 0
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


def test_a_file_that_is_no_lease_is_named(folder):
    folder.create("lease.json", b"{}")
    with pytest.raises(CheckpointError, match=r"lease\.json in the state location .* is not a lease of this version"):
        lease(folder, Clock()).acquire("one")


def test_one_of_many_who_come_at_one_time_gets_it(folder):
    def take(number):
        candidate = Lease(folder, lease_s=1, clocks=Clock().clocks, renewed_by_thread=False)
        barrier.wait()
        version = folder.create("lease.json", str(number).encode())
        return candidate, version

    barrier = threading.Barrier(6)
    with ThreadPoolExecutor(6) as pool:
        won = [version for _, version in pool.map(take, range(6)) if version is not None]
    assert len(won) == 1


@pytest.mark.parametrize("conditions", ["ignored", "refused"])
def test_where_conditions_are_not_kept_the_later_writer_wins_and_the_other_learns_it(conditions, server, tmp_path):
    with closing(server.client()) as client:
        folder = open_folder(f"s3://state/{tmp_path.name}", Endpoint(client, conditions))
        loser = lease(folder, Rival(lambda _: folder._put("lease.json", winning)))
        winner = lease(folder, Clock())
        winner.acquire("winner")
        winning = folder.read("lease.json").data
        folder.delete("lease.json")
        with pytest.raises(ConnectorError, match="taken by another query at the same time"):
            loser.acquire("loser")
        winner.renew()


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
    """Another process, which holds the lease for a second at a time."""
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
    assert clock.now == 0
    other.check()


@pytest.mark.parametrize("elsewhere", ["", "another-boot pid:[1] 1", "{boot} pid:[1] 1"])
def test_a_process_of_another_machine_or_container_is_not_taken_for_gone(holder, tmp_path, config, elsewhere):
    holder.kill()
    holder.wait()
    folder = open_folder(str(tmp_path), config)
    found = folder.read("lease.json")
    note = json.loads(found.data)
    boot, numbers, number = note["process"].split()
    assert (int(number), numbers[:4]) == (holder.pid, "pid:")
    folder.replace("lease.json", json.dumps({**note, "process": elsewhere.format(boot=boot)}).encode(), found.version)
    clock = Clock()
    lease(folder, clock).acquire("other")
    assert clock.now >= note["lease_s"]
