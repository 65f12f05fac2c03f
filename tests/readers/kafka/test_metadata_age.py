"""A client requests the leaders of partitions again when its metadata are old, as in Java."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tidegate.readers.kafka.cluster import KafkaCluster
from tidegate.readers.kafka.config import TopicPartition
from tidegate.sources.kafka.java.properties import connection_config

if TYPE_CHECKING:
    from collections.abc import Collection

    import pytest

ORDERS = TopicPartition("orders", 0)


def test_leaders_are_asked_for_again_after_metadata_max_age_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    cluster = KafkaCluster(connection_config("here", {"metadata.max.age.ms": "5000"}))
    asked: list[Collection[str]] = []

    def refresh(topics: Collection[str], *_: object) -> None:
        asked.append(topics)
        cluster._leaders[ORDERS] = "here:9092"

    monkeypatch.setattr(cluster, "_refresh_leaders", refresh)
    for later_s, times in ((0, 1), (4.9, 1), (5.1, 2), (9.9, 2), (10.3, 3)):
        now[0] = 100 + later_s
        led, _ = cluster.leaders([ORDERS], cluster.deadline("test"))
        assert led == {"here:9092": [ORDERS]}
        assert len(asked) == times
