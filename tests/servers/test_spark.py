from __future__ import annotations

from tidegate.servers import SparkCluster


def test_a_cluster_has_its_worker_and_one_that_was_killed_comes_back() -> None:
    with SparkCluster(workers=1) as cluster:
        assert cluster.alive_workers == 1
        assert cluster.master_url.startswith("spark://127.0.0.1:")
        pids = cluster.pids
        cluster.restart(2)
        assert cluster.is_whole
        assert [node for node in pids if cluster.pids[node] != pids[node]] == [2]
    assert not cluster.pids
    assert cluster.alive_workers == 0
