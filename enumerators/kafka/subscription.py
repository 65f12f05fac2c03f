"""Subscriptions to Kafka partitions: by topic, by pattern, or one by one."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from tidegate.errors import ConnectorError, did_you_mean
from tidegate.readers.arrow import compute as pc
from tidegate.readers.kafka.client import KafkaClient
from tidegate.readers.kafka.config import TopicPartition

_LOG = logging.getLogger("tidegate.planner")

# Spark matches names with Java.  A pattern is taken as far as it means the same to Java, to RE2 and to Python, for
# names of topics: letters, digits, dots, underscores and hyphens.  All else is refused.
# Elsewhere in a class, a hyphen may become a set difference in a later Python.
_CLASS = r"\[\^?(?:-|-?(?:\w-\w|[\w.,:;/ ]|\\[dDwWsS.-])+-?)\]"
_CHARACTER = r"[\w.,:;/ -]|\\[dDwWsS]|\\[^\w\s]"
_QUANTIFIER = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??(?![*+?{])"
_PIECE = re.compile(
    rf"(?:{_CLASS}|{_CHARACTER}|\))(?:{_QUANTIFIER})?|\((?:\?(?:[:=!]|<[=!]|i:))?|[|^$]|\\[bB]", re.ASCII
)
_LOOK_AROUNDS = ("(?=", "(?!", "(?<=", "(?<!")


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of the topics, including later ones."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics whose whole name matches the regular expression, which is one of Java."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions, and no others."""

    partitions: tuple[TopicPartition, ...]


Subscription: TypeAlias = Subscribe | SubscribePattern | Assign


class PatternError(ValueError):
    """A pattern that is not one of Java, or holds what is not supported here."""


def check_pattern(pattern: str) -> None:
    """Raise PatternError, which names the place, if a pattern may not mean the same to Java."""
    at = len("(?i)") if pattern.startswith("(?i)") else 0
    open_groups: list[str] = []
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            raise PatternError(
                f"expected characters, classes such as [a-z] or \\d, groups, |, *, +, ? and {{2,5}} with counts up to "
                f"999, and (?i) at the beginning, as in Java; at index {at} is {pattern[at : at + 8]!r}"
            )
        if piece[0].startswith("("):
            open_groups.append(piece[0])
        closed = open_groups.pop() if piece[0].startswith(")") and open_groups else None
        if closed in _LOOK_AROUNDS and piece[0] != ")":
            # A look-around takes no characters, so languages differ in what it means to repeat it.
            raise PatternError(f"expected no quantifier after a look-around; at index {at} is {pattern[at : at + 8]!r}")
        at = piece.end()
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"it is not a regular expression: {error}") from None


def _matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Return the topics whose whole name matches the pattern.

    Python's regular expressions may backtrack for ages.  RE2, which is part of Arrow, does not.  But it cannot look
    around, so Python matches patterns that do.
    """
    names = pa.array(topics, pa.string())
    try:
        matching = pc.match_substring_regex(names, f"^(?:{pattern})$")
    except pa.ArrowInvalid:
        return [topic for topic in names.to_pylist() if re.fullmatch(pattern, topic)]
    return names.filter(matching).to_pylist()  # type: ignore[no-any-return]


def find_partitions(
    subscription: Subscription, client: KafkaClient, known: Collection[str] = (), *, deadline_s: float | None = None
) -> list[TopicPartition]:
    """Return the partitions that exist now.

    known: topics that existed before; deleted ones are left out.

    Raises ConnectorError if any other named topic or partition does not exist; a pattern may match nothing yet.
    """
    if isinstance(subscription, SubscribePattern):
        expected = _matching(subscription.pattern, known)
        every = client.partitions(expected=expected, deadline_s=deadline_s)
        matching = {topic: every[topic] for topic in _matching(subscription.pattern, every)}
        if not matching:
            _LOG.warning(
                "subscribePattern %r matches the whole name of none of the %d topics at %s%s",
                subscription.pattern,
                len(every),
                client.config.bootstrap_servers,
                did_you_mean(subscription.pattern, every),
            )
        return _of(matching)
    if isinstance(subscription, Subscribe):
        return _of(_existing(subscription.topics, client, known, deadline_s))
    named = tuple(dict.fromkeys(p.topic for p in subscription.partitions))
    topics = _existing(named, client, known, deadline_s)
    for partition in subscription.partitions:
        if partition.topic in topics and partition.partition not in topics[partition.topic]:
            sentence = (
                f"topic {partition.topic!r} has no partition {partition.partition}, "
                f"only {_ids(topics[partition.topic])}"
            )
            if partition.topic not in known:
                raise ConnectorError(sentence)
            _LOG.warning("%s", sentence)  # the topic may have been recreated with fewer
    return [p for p in subscription.partitions if p.partition in topics.get(p.topic, ())]


def named_topics(subscription: Subscription) -> set[str]:
    """Return the topics that a subscription names."""
    if isinstance(subscription, Subscribe):
        return set(subscription.topics)
    return {p.topic for p in subscription.partitions} if isinstance(subscription, Assign) else set()


def _of(topics: Mapping[str, tuple[int, ...]]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic, partitions in topics.items() for partition in partitions]


def _existing(
    named: tuple[str, ...], client: KafkaClient, known: Collection[str], deadline_s: float | None
) -> Mapping[str, tuple[int, ...]]:
    expected = [topic for topic in named if topic in known]
    topics = client.partitions(named, expected=expected, deadline_s=deadline_s)
    for topic in named:
        if topic not in topics and topic not in known:
            hint = did_you_mean(topic, client.partitions())
            raise ConnectorError(f"topic {topic!r} does not exist at {client.config.bootstrap_servers}{hint}")
    return topics


def _ids(partitions: tuple[int, ...]) -> str:
    return f"{partitions[0]} to {partitions[-1]}"
