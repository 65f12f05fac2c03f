"""Which Kafka partitions a source reads: by topics, by a pattern, or one by one."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.errors import ConnectorError, did_you_mean
from tidegate.readers.kafka_client import KafkaClient
from tidegate.readers.kafka_config import TopicPartition

__all__ = ["Assign", "Subscribe", "SubscribePattern", "Subscription", "find_partitions"]

_LOG = logging.getLogger("tidegate.planner")


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of the topics, also those that are added later."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics whose whole name matches the regular expression."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions, and no others."""

    partitions: tuple[TopicPartition, ...]


Subscription: TypeAlias = Subscribe | SubscribePattern | Assign


def find_partitions(
    subscription: Subscription, client: KafkaClient, *, deadline_s: float | None = None
) -> list[TopicPartition]:
    """Return the partitions there are now.

    Raises ConnectorError when a topic or a partition that is named does not exist; a pattern may
    match nothing yet.
    """
    if isinstance(subscription, SubscribePattern):
        topics = client.partitions(deadline_s=deadline_s)
        matching = {t: topics[t] for t in topics if re.fullmatch(subscription.pattern, t)}
        if not matching:
            _LOG.warning(
                "subscribePattern %r matches the whole name of none of the %d topics at %s%s",
                subscription.pattern,
                len(topics),
                client.config.bootstrap_servers,
                did_you_mean(subscription.pattern, topics),
            )
        return _of(matching)
    if isinstance(subscription, Subscribe):
        topics = client.partitions(subscription.topics, deadline_s=deadline_s)
        _require(subscription.topics, topics, client)
        return _of(topics)
    named = tuple(dict.fromkeys(p.topic for p in subscription.partitions))
    topics = client.partitions(named, deadline_s=deadline_s)
    _require(named, topics, client)
    for partition in subscription.partitions:
        if partition.partition not in topics[partition.topic]:
            raise ConnectorError(
                f"topic {partition.topic!r} has no partition {partition.partition}, "
                f"only {_ids(topics[partition.topic])}"
            )
    return list(subscription.partitions)


def _of(topics: Mapping[str, tuple[int, ...]]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic, partitions in topics.items() for partition in partitions]


def _require(named: tuple[str, ...], found: Mapping[str, tuple[int, ...]], client: KafkaClient) -> None:
    for topic in named:
        if topic not in found:
            hint = did_you_mean(topic, client.partitions())
            raise ConnectorError(f"topic {topic!r} does not exist at {client.config.bootstrap_servers}{hint}")


def _ids(partitions: tuple[int, ...]) -> str:
    return f"{partitions[0]} to {partitions[-1]}"
