"""The ledger and its files, which stay as long as offsets name them, and the memory of discovered objects."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.enumerators.s3.objects import Endpoint
from tests.enumerators.s3.queries import open_ledger
from tests.support.logs import Clock
from tidegate.enumerators.s3.state import seen_objects
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.enumerators.s3.state.ledger import OFFSETS_REMEMBERED, ORPHAN_S, Ledger, QueryFolder
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.errors import CheckpointError, ContractError
from tidegate.readers.objects.values import S3Object


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


@pytest.mark.parametrize("damaged", [b"", b'{"path":', b"7", b"[" * 100_000])
def test_damaged_options_of_earlier_runs_are_one_sentence(tmp_path, damaged):
    def made():
        return QueryFolder(open_ledger(tmp_path), "me", {"path": "s3://b/in/"})

    one = made()
    one.hold()
    one.ledger.note("options", damaged)
    one.release()
    with pytest.raises(CheckpointError, match=r"^'options' in the state location .* is damaged; restore it, or begin"):
        made().hold()


AGE_MS = 20
objects = st.builds(
    S3Object,
    st.sampled_from([f"k{i}" for i in range(12)] + ["ü/ä b"]),
    st.integers(0, 1),
    st.sampled_from(["", "e1", "e2"]),
    st.integers(0, 80),
)
pages = st.lists(objects, max_size=8)


def version(obj: S3Object):
    return obj.size, obj.etag or obj.modified_ms


def stored_and_restored(seen, max_age_ms=None):
    files = {run.name: run.to_bytes() for run in seen.runs}
    snapshot = json.loads(json.dumps(seen.snapshot()))
    return SeenObjects.restored(snapshot, files.__getitem__, max_age_ms)


class Remembering(RuleBasedStateMachine):
    """Keeps the promises of the memory with a dictionary."""

    max_age_ms: int | None = AGE_MS

    def __init__(self):
        super().__init__()
        self.seen = SeenObjects(self.max_age_ms)
        self.known: dict[str, S3Object] = {}
        self.newest = self.horizon = None

    def expected(self, page):
        last = {obj.key: obj for obj in page if self.horizon is None or obj.modified_ms >= self.horizon}
        new = [obj for obj in last.values() if obj.key not in self.known]
        other = [obj for obj in last.values() if obj.key in self.known and version(self.known[obj.key]) != version(obj)]
        return new, other

    @rule(page=pages, remember=st.sampled_from(["all", "new", "none"]))
    def sift(self, page, remember):
        new, overwritten = self.seen.sift(page)
        assert (new, overwritten) == self.expected(page)
        chosen = {"all": new + overwritten, "new": new, "none": []}[remember]
        self.add(chosen)

    @rule(added=pages)
    def add(self, added):
        self.seen.add(added)
        for obj in added:
            self.known[obj.key] = obj
            self.newest = max(self.newest or obj.modified_ms, obj.modified_ms)
        self.forget()

    def forget(self):
        self.known = {k: obj for k, obj in self.known.items() if obj.modified_ms >= (self.horizon or 0)}

    @rule(at_ms=st.integers(0, 80))
    def end_round(self, at_ms):
        self.seen.end_round(at_ms)
        if self.max_age_ms is not None and self.newest is not None:
            horizon = min(self.newest, at_ms) - self.max_age_ms
            if self.horizon is None or horizon > self.horizon:
                self.horizon = horizon
                self.forget()

    @rule()
    def restart(self):
        self.seen = stored_and_restored(self.seen, self.max_age_ms)

    @rule()
    def go_on_with_a_copy(self):
        left, self.seen = self.seen, self.seen.copy()
        left.add([S3Object("k0", 99, "other", 1_000)])
        left.end_round(1_000)

    @invariant()
    def remembers_no_more(self):
        assert len(self.seen) == len(self.known)
        assert self.seen.horizon_ms == self.horizon
        lengths = [len(run) for run in self.seen.runs]
        assert all(before > seen_objects.GROWTH * after for before, after in pairwise(lengths))


class RememberingForEver(Remembering):
    max_age_ms = None


class RememberingColliding(Remembering):
    """Has digests many of which share their first half."""

    def __init__(self):
        super().__init__()
        self.digests = seen_objects._digests

        def colliding(objects_of_page):
            run = self.digests(objects_of_page)
            return seen_objects.SeenRun(run.high % 2, run.low, run.version, run.modified_ms)

        seen_objects._digests = colliding

    def teardown(self):
        seen_objects._digests = self.digests


for machine in (Remembering, RememberingForEver, RememberingColliding):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestRemembering = Remembering.TestCase
TestRememberingForEver = RememberingForEver.TestCase
TestRememberingColliding = RememberingColliding.TestCase


def s3_object(key, modified_ms=0, etag="e"):
    return S3Object(key, 1, etag, modified_ms)


def test_the_age_may_be_changed_by_a_restart_but_nothing_comes_back():
    seen = SeenObjects(max_age_ms=10)
    seen.add([s3_object("a", 1_000)])
    seen.end_round(1_000)
    again = stored_and_restored(seen, 500)
    again.end_round(1_000)
    assert again.horizon_ms == 990


@given(st.integers(0, 183), st.integers(1, 255))
def test_damaged_bytes_are_refused(at, flip):
    seen = SeenObjects(None)
    seen.add([s3_object(str(i)) for i in range(5)])
    (run,) = seen.runs
    data = bytearray(run.to_bytes())
    data[at] ^= flip
    with pytest.raises(CheckpointError, match="the memory of discovered objects"):
        SeenObjects.restored(seen.snapshot(), lambda _: bytes(data), None)
    with pytest.raises(CheckpointError, match=f"{run.name}' is damaged: its 183 bytes"):
        SeenObjects.restored(seen.snapshot(), lambda _: run.to_bytes()[:-1], None)
    older = run.to_bytes().replace(seen_objects.MAGIC, b"tidegate seen 1\n")
    with pytest.raises(CheckpointError, match="the memory of discovered objects is of another version of tidegate"):
        SeenObjects.restored(seen.snapshot(), lambda _: older, None)


def test_rounds_that_find_little_write_little_and_are_few_files():
    seen, many, few, rounds = SeenObjects(max_age_ms=10**9), 100_000, 10, 300
    seen.add([s3_object(f"first {i}", i) for i in range(many)])
    seen.end_round(10**6)
    base = {run.name for run in seen.runs}
    written = dict.fromkeys(base, 0)
    for number in range(rounds):
        seen.add([s3_object(f"{number} {i}", many + number) for i in range(few)])
        seen.end_round(10**6)
        assert len(seen.runs) <= 8
        for run in seen.runs:
            written.setdefault(run.name, len(run.to_bytes()))
    assert base <= {run.name for run in seen.runs}
    assert sum(written.values()) < 10 * rounds * few * 32
    assert len(stored_and_restored(seen)) == many + rounds * few


def test_what_is_behind_the_horizon_goes_from_the_files_when_it_is_the_most():
    seen = SeenObjects(max_age_ms=100)
    for number in range(1_000):
        seen.add([s3_object(str(number), number)])
        seen.end_round(number)
        assert sum(len(run) for run in seen.runs) <= 203
    assert len(seen) == 101
