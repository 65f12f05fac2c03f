"""Queries that share a state location: ``tidegate ledger queries`` and ``forget``."""

from collections import Counter
from contextlib import closing

from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.s3.state import lease
from tidegate.jobs.figures import clock_time


def test_what_abandoned_checkpoints_left_is_shown_and_deleted_on_request(query, ledger):
    query.run()
    abandoned = ledger("show")["query"]
    query.offset = INITIAL_OFFSET  # a new checkpoint
    query.run(1)
    ask = {"checkpoint": False, "path": False}
    now, before = ledger("queries", **ask)
    assert (before["query"], before["lease"], now["lease"]) == (abandoned, None, "released")
    files = [path.stat() for path in (query.state_folder / "ledger" / abandoned).iterdir()]
    assert (before["files"], before["bytes"]) == (len(files), sum(file.st_size for file in files))
    assert before["written"] == clock_time(int(max(file.st_mtime for file in files) * 1000))
    assert f"no query '{abandoned}x' keeps anything in " in ledger("forget", f"{abandoned}x", **ask)
    assert ledger("forget", abandoned, **ask) == [before]
    assert ledger("queries", **ask) == [now]
    query.run()
    assert query.delivered == Counter({f"{hour}.parquet": 2 for hour in range(4)})


def test_a_query_that_is_running_is_not_forgotten(query, ledger, monkeypatch):
    monkeypatch.setattr(lease, "RENEWALS_PER_LEASE", 300)
    planner = SourceCoordinator("s3", query.source.enumerator, query.settings, cores=1)
    with closing(planner):
        owner = planner.latest_offset(INITIAL_OFFSET)["enumerator"]["owner"]
        sentence = ledger("forget", owner, checkpoint=False, path=False)
    assert f"the query '{owner}' is running, and uses the state location " in sentence
    assert ledger("forget", owner, checkpoint=False, path=False)[0]["query"] == owner
