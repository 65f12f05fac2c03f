"""The followers that a client reads from because they are nearer than the leaders (KIP-392)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from tidegate.readers.kafka.config import TopicPartition


class _Choice(NamedTuple):
    node: int | None
    until: float


class PreferredReplicas:
    """Remembers for some seconds which follower a leader has named for a partition, or that it failed."""

    def __init__(self, lifetime_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lifetime_s, self._clock = lifetime_s, clock
        self._choices: dict[TopicPartition, _Choice] = {}

    def prefer(self, partition: TopicPartition, node: int) -> None:
        """Read the partition from this follower from now on."""
        self._choices[partition] = _Choice(node, self._clock() + self._lifetime_s)

    def of(self, partition: TopicPartition) -> int | None:
        """Return the node id of the follower; None: ask the leader."""
        choice = self._choice(partition)
        return None if choice is None else choice.node

    def avoid(self, partition: TopicPartition) -> bool:
        """Read the partition from its leader for a while; return whether a follower was read until now."""
        was_follower = self.of(partition) is not None
        if was_follower:
            self._choices[partition] = _Choice(None, self._clock() + self._lifetime_s)
        return was_follower

    def is_avoided(self, partition: TopicPartition) -> bool:
        """Return whether the leader must not name a follower now."""
        choice = self._choice(partition)
        return choice is not None and choice.node is None

    def forget(self, partition: TopicPartition) -> None:
        """Ask the leader again, because the follower could not be asked."""
        if self.of(partition) is not None:
            del self._choices[partition]

    def _choice(self, partition: TopicPartition) -> _Choice | None:
        choice = self._choices.get(partition)
        return choice if choice is not None and self._clock() < choice.until else None
