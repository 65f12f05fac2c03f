"""The ledger and its files, on a disk and in a bucket of a real endpoint, which stay as long as offsets name them."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.enumerators.s3.endpoints import Endpoint
from tests.enumerators.s3.queries import open_ledger
from tests.support.logs import Clock
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.enumerators.s3.state.ledger import OFFSETS_REMEMBERED, ORPHAN_S, Ledger, QueryFolder
from tidegate.errors import ContractError


@pytest.fixture
def ledger(location, config):
    return Ledger(location, config)


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


def test_only_old_files_that_nobody_names_are_swept(location, config):
    now = [0.0]
    ledger = Ledger(location, config, wall_clock=lambda: now[0])
    lease = ledger.lease()
    lease.acquire("me")
    for name in ("kept", "orphan", "other orphan"):
        ledger.write(name, name.encode())
    now[0] = max(file.written_s for file in ledger._files.files().values()) + 9
    ledger.sweep({"kept", "not there"}, older_than_s=10)
    assert ledger.names() == ["kept", "orphan", "other orphan"]
    now[0] += 2
    ledger.sweep({"kept", "not there"}, older_than_s=10)
    assert ledger.names() == ["kept"]
    ledger.sweep({"kept"}, older_than_s=0)
    lease.check()
    lease.release()


def test_a_note_is_replaced_and_what_never_changes_is_not(ledger):
    assert ledger.noted("left-out") is None
    for note in (b"one", b"other", b"other"):
        ledger.note("left-out", note)
        assert ledger.noted("left-out") == note
    assert ledger.names() == ["left-out"]


def test_many_who_write_the_same_at_one_time_agree(ledger):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: ledger.write("same", b"x" * 100_000), range(16)))
    assert ledger.read("same") == b"x" * 100_000
    assert ledger.names() == ["same"]


def test_a_write_whose_answer_was_lost_is_no_other_ones(server, tmp_path):
    with closing(server.client()) as client:
        endpoint = Endpoint(client)
        ledger = Ledger(f"s3://state/{tmp_path.name}", endpoint)
        ledger.write("before", b"")
        endpoint.answers_lost = 1
        ledger.write("a", b"content")
        assert ledger.read("a") == b"content"
        lease = Lease(ledger._root, clocks=Clock().clocks)
        for step in (lambda: lease.acquire("me"), lease.renew, lease.renew, lease.check):
            endpoint.answers_lost = 1
            step()
        endpoint.answers_lost = 0
        lease.release()


@pytest.fixture
def folder(tmp_path):
    made = QueryFolder(open_ledger(tmp_path, later_s=2 * ORPHAN_S), "me", {"path": "s3://b/in/"})
    made.hold()
    yield made
    made.release()


def test_what_one_of_the_last_offsets_names_stays_and_what_none_names_goes(folder):
    folder.write({f"file{number}": b"x" for number in range(OFFSETS_REMEMBERED + 3)})
    for number in range(OFFSETS_REMEMBERED + 1):
        folder.remember([f"file{number}"])
        folder.remember([f"file{number}"])
    folder.sweep([f"file{OFFSETS_REMEMBERED + 1}"])
    left = {name for name in folder.ledger.names() if name.startswith("file")}
    assert left == {f"file{number}" for number in range(1, OFFSETS_REMEMBERED + 2)}
