"""A group whose members keep together by the watermarks of their generators, across restarts."""

from datetime import timedelta

import pytest

from tests.support.clocks import Clock
from tests.support.logs import Logs, coordinator, read
from tidegate.alignment.generators.bounded import AscendingTimestampsWatermarks
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.folders.local import LocalFolder
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.planning.offset import INITIAL_OFFSET

DRIFT = 3
WATERMARKS = WatermarkStrategy.for_generator(AscendingTimestampsWatermarks).with_watermark_alignment(
    max_drift=timedelta(milliseconds=DRIFT), group="g"
)


class Source:
    """One source of the group, with the offsets of its query."""

    def __init__(self, path, clock, **logs):
        self.path, self.clock, self.logs = path, clock, Logs(**logs)
        self.offsets = [INITIAL_OFFSET]
        self.restart()

    def restart(self):
        group = GroupFolder(NoteFolder(LocalFolder(self.path, "group")), DRIFT, clocks=self.clock.clocks)
        self.run = coordinator(self.logs, self.clock, watermarks=WATERMARKS, drift_by_watermark=True, group=group)

    def batch(self):
        """Take a batch, and return how many rows it has."""
        before = self.offsets[-1]
        self.offsets.append(self.run.latest_offset(before))
        return len(read(self.run, before, self.offsets[-1]))

    def rows(self, batches=10):
        """Take batches, and return how many rows they have."""
        return sum(self.batch() for _ in range(batches))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def slow(tmp_path, clock):
    """A source with a gap of time between its first row and the others."""
    source = Source(tmp_path, clock, a=[0, 50, 51, 52])
    yield source
    source.run.close()


@pytest.fixture
def fast(tmp_path, clock):
    source = Source(tmp_path, clock, b=range(100))
    yield source
    source.run.close()


def test_a_restart_in_a_group_that_repeats_a_batch_frees_nobody_before_generators_have_seen_it(slow, fast):
    fast.batch()
    assert [slow.batch(), slow.batch()] == [0, 1]
    held_at = fast.rows()
    assert 0 < held_at < 10
    assert slow.batch() == 3  # the rows behind the gap
    slow.restart()
    read(slow.run, *slow.offsets[-2:])
    assert fast.rows() == 0
    slow.batch()
    assert 40 < held_at + fast.rows(30) < 60


def test_a_restart_in_a_group_whose_others_are_not_back_yet_reads_nothing_until_their_leases_end(slow, fast, clock):
    fast.batch()
    slow.rows(2)
    assert 0 < fast.rows() < 10
    slow.run.close()
    fast.restart()
    assert fast.rows(3) == 0
    clock.sleep(61)
    assert fast.rows(3) > 0
