"""Queries that go back to an older copy of their checkpoint and state location."""

from shutil import copytree, rmtree

import pytest

from tests.enumerators.s3.queue_queries import DAY_MS, put, tell

pytestmark = pytest.mark.usefixtures("no_waiting")


def test_an_older_copy_of_a_checkpoint_finds_what_came_since_by_listing(queue_query, store, queue, tmp_path):
    """The messages of these objects are gone."""
    one = queue_query(backfill_ms=DAY_MS)
    put(store, "old")
    one.look()
    one.stop()
    offset, copied = one.offset, copytree(tmp_path / "state", tmp_path / "copy")
    put(store, "since")
    tell(queue, "since")
    for _ in range(2):
        one.look()
    one.stop()
    assert one.delivered == {"old": 1, "since": 1}
    rmtree(tmp_path / "state")
    one.offset = offset
    copytree(copied, tmp_path / "state")
    one.clock.sleep(DAY_MS / 1000)
    one.look()
    assert one.delivered == {"old": 1, "since": 2}
