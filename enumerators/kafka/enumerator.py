"""The Kafka enumerator: partitions as splits, offsets as positions, ListOffsets as the time index."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import Extent, Head, Horizon, Positions, SplitId, SplitRange
from tidegate.enumerators.clocks import REAL_CLOCKS
from tidegate.enumerators.contract import Divergence, Json, SplitEnumerator
from tidegate.enumerators.kafka.commits import GroupCommits
from tidegate.enumerators.kafka.heads import HeadFinder
from tidegate.enumerators.kafka.offsets import EndsByTime, OffsetsSpec, look_up, progress_by_topic, resolve
from tidegate.enumerators.kafka.subscription import Subscription, find_partitions, named_topics
from tidegate.enumerators.kafka.topics import KafkaSnapshot, KnownTopics, LogCut, LogEnds, recreated_since
from tidegate.enumerators.planning.run_log import first_names
from tidegate.errors import CheckpointError, ConnectorError, DataLossError, PositionGoneError, UnknownPartitionError
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.kafka.client import EARLIEST, LATEST, MAX_TIMESTAMP, KafkaClient, ListedOffset
from tidegate.readers.kafka.config import IsolationLevel, KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka.peek import FindHead, PeekCache, peek
from tidegate.readers.kafka.reader import KafkaDetails

if TYPE_CHECKING:
    from tidegate.enumerators.kafka.history import TopicHistory
    from tidegate.readers.archive.archive import Archive

_LOG = logging.getLogger("tidegate.planner")
_FIRST_CONTACT_S = 5.0
_LEADER_ELECTION_S = 2.0
_NO_TOPIC = UUID(int=2)  # brokers make random ids

_Answer = TypeVar("_Answer")


class KafkaEnumerator(SplitEnumerator):
    """Enumerates the partitions of a subscription, and peeks at records for their event times.

    starting, stopping: where new queries start, and where they end, if configured.
    event_times: reads event times from records; an unknown unit is detected once.
    state: the last run's snapshot; see KafkaSnapshot.
    fail_on_data_loss: refuse to continue with another cluster, and remember partitions that are gone.
    commit_group_id: the consumer group to which positions of written batches are committed.
    """

    positions_are_rows = True

    def __init__(
        self,
        config: KafkaConnectionConfig,
        subscription: Subscription,
        starting: OffsetsSpec,
        stopping: OffsetsSpec | None,
        state: Json | None = None,
        *,
        event_times: RecordTimes | None = None,
        fail_on_data_loss: bool = True,
        commit_group_id: str | None = None,
    ) -> None:
        stored = KafkaSnapshot.from_json(state)
        self._client = KafkaClient(config)
        self._subscription, self._starting, self._stopping = subscription, starting, stopping
        self._cluster_id = stored.cluster
        self._topics = KnownTopics(stored.topics)
        self._taken_over_ms = stored.taken_over_ms
        self._archive_version = stored.archive
        self._ends = EndsByTime(stored.ends, REAL_CLOCKS)
        event_times = event_times or RecordTimes()
        self._detects_unit = event_times.unit_is_unknown
        self._find_head = HeadFinder(stored.with_detected_unit(event_times))
        self._peeks = PeekCache()
        self._fail_on_data_loss = fail_on_data_loss
        self._met = False
        self._found: list[TopicPartition] = []
        self._logs = LogEnds()
        self._away: Collection[TopicPartition] = ()
        self._commits = None if commit_group_id is None else GroupCommits(config, commit_group_id)
        self._history: TopicHistory | None = None

    def add_archive(self, archive: Archive) -> None:
        """Take an archive for a second place of the same records; called before all other methods."""
        from tidegate.enumerators.kafka.history import TopicHistory  # most queries have no archive

        strict = self._fail_on_data_loss
        self._history = TopicHistory(
            archive, self._client, self._find_head, fail_on_data_loss=strict, version=self._archive_version
        )

    def discover(self) -> Collection[SplitId]:
        """Return the subscribed partitions; the first call fails fast if no broker answers.

        Raises OptionError if the archive holds records of another topic of the same name; the first call also if an end
        names another partition.
        """
        deadline_s = None if self._met else min(_FIRST_CONTACT_S, self._client.config.deadline_s)
        known = [*{partition.topic for partition in self._found} | set(self._topics.names)]
        self._found = find_partitions(self._subscription, self._client, known, deadline_s=deadline_s)
        if not self._met:
            self._met = True
            self._recognise_cluster()
            if self._stopping is not None:
                self._stopping.check_known(self._found)
        if self._history is not None:
            self._history.discover(self._found)
        return [partition.split_id for partition in self._found]

    def details(self, wanted: SplitRange) -> KafkaDetails:
        """Return the planned topic and leader, and what of the range is archived.

        Raises DataLossError if a part is neither in the archive nor in Kafka.
        """
        if not self._met:  # a batch that an earlier run planned
            self.discover()
        partition = TopicPartition.of(wanted.split_id)
        topic_id = self._topics.ids.get(partition.topic)
        planned = KafkaDetails(
            _NO_TOPIC if self._is_another(partition, wanted) else topic_id, self._topics.epoch(partition)
        )
        return planned if self._history is None else self._history.details(wanted, planned)

    def _is_another(self, partition: TopicPartition, wanted: SplitRange) -> bool:
        """Return whether a batch that the built-in source planned is to be repeated with another topic.

        Raises DataLossError if it is, unless that is accepted.
        """
        if self._taken_over_ms is None:
            return False
        found = recreated_since(self._taken_over_ms, {partition: wanted.end}, self._client)
        if found and self._fail_on_data_loss:
            raise DataLossError(
                f"split {wanted.split_id!r} is wanted up to position {wanted.end}, but {found[partition].reason}"
            )
        return bool(found)

    def forget(self, removed: Positions) -> Collection[SplitId]:
        """Return the partitions that no longer exist, if data loss is accepted: they never come back."""
        if self._fail_on_data_loss:
            return ()
        gone = self.lost(removed)
        if gone:
            _LOG.warning("%s no longer exist, and are no longer read (failOnDataLoss is false)", first_names(gone))
        self._ends.forget(_partitions(gone))
        self._topics.forget(_partitions(gone), named_topics(self._subscription))
        return gone

    def lost(self, removed: Positions) -> list[SplitId]:
        """Return the partitions that no longer exist, without those that are merely not subscribed."""
        partitions = _partitions(removed)
        topics = {p.topic for p in partitions}
        there = self._client.partitions(topics, expected=topics) if partitions else {}
        return [p.split_id for p in partitions if p.partition not in there.get(p.topic, ())]

    def starts(self, splits: Collection[SplitId], *, first: bool) -> Positions:
        """Resolve the starting offsets; partitions that appear later begin at their earliest offset."""
        spec = self._starting if first else OffsetsSpec("startingOffsets", EARLIEST)
        partitions = _partitions(splits)
        spec.check_known(partitions)
        starts = _by_split(self._asked(partial(resolve, spec, partitions, self._client, self._history)))
        if self._find_head.event_times.unit_is_unknown:
            self.peek(starts, Horizon())  # executors must know the unit, even if nothing is planned by time
        return starts

    def stops(self, splits: Collection[SplitId]) -> Mapping[SplitId, int | None]:
        """Resolve the ending offsets, if there are any; the latest are those of the last extents."""
        if self._stopping is None or not splits:
            return dict.fromkeys(splits)
        partitions, ids = _partitions(splits), self._client.topic_ids
        self._ends.forget([p for p in partitions if self._topics.is_another(p.topic, ids.get(p.topic))])
        known = self._ends.known_of(partitions)
        epochs = {p: epoch for p in known if (epoch := self._topics.epoch(p)) is not None}
        self._asked(lambda: self._epoch_ends(epochs))
        logs = self._logs.extents
        resolved = partial(resolve, self._stopping, partitions, self._client, self._history, self._ends, logs)
        return {**dict.fromkeys(splits), **_by_split(self._asked(resolved))}

    def extents(self, splits: Collection[SplitId]) -> Mapping[SplitId, Extent]:
        """Request the beginning and the end of each log, which is settled when no transaction is open."""
        self._client.wait_for_leaders(math.inf)
        self._away = ()
        return self._reachable_extents(splits)[0]

    def available_extents(self, splits: Collection[SplitId]) -> tuple[Mapping[SplitId, Extent], Mapping[SplitId, str]]:
        """Return the extents; this and later peeks wait for leaders only as long as an election takes."""
        # Wait for a partition only once, not in each call.
        self._client.wait_for_leaders(0.0 if self._away else _LEADER_ELECTION_S)
        extents, away = self._reachable_extents(splits)
        if away and not extents:
            return self.extents(splits), {}
        self._away = _partitions(away)
        self._client.wait_for_leaders(_LEADER_ELECTION_S)
        return extents, away

    def wait(self, seconds: float) -> bool:
        """Wait for records by the brokers' fetch sessions."""
        return bool(self._away) or self._client.wait(seconds)

    def validate(self, positions: Positions) -> Mapping[SplitId, Divergence]:
        """Compare the ids of topics, and leader epochs that have changed.

        Raises DataLossError if an archive reaches beyond a cut: its records are not those that Kafka has now.
        """
        self._ask_for_topics_of([s for s, at in positions.items() if self._logs.high.get(s, at) < at])
        by_partition = {TopicPartition.of(split): position for split, position in positions.items()}
        if (taken_over_ms := self._taken_over_ms) is not None:
            found = self._asked(lambda: recreated_since(taken_over_ms, by_partition, self._client))
            self._taken_over_ms = None
            return {partition.split_id: divergence for partition, divergence in found.items()}
        if self._topics.is_settled:
            return {}
        divergences = self._asked(
            lambda: self._topics.divergences(by_partition, self._logs.begins, self._client.topic_ids, self._epoch_ends)
        )
        self._ends.forget(divergences)
        for partition, divergence in divergences.items():
            if self._history is not None and isinstance(divergence, LogCut):
                self._history.check_kept(partition.split_id, divergence.position)
        return {partition.split_id: divergence for partition, divergence in divergences.items()}

    def take_moved_stops(self) -> Collection[SplitId]:
        """Return the partitions whose ends by time were at offsets that their logs have lost since."""
        return self._ends.take_moved()

    def ends_under(self, epochs: Mapping[SplitId, int | None]) -> dict[SplitId, int]:
        """Return up to which offset logs are those of earlier leader epochs, where there was another leader since."""
        asked = {TopicPartition.of(split): epoch for split, epoch in epochs.items() if epoch is not None}
        earlier = {p: epoch for p, epoch in asked.items() if epoch < self._logs.leader_epochs.get(p, epoch)}
        ends = self._asked(lambda: self._client.epoch_ends(earlier)) if earlier else {}
        return {partition.split_id: end for partition, (_, end) in ends.items() if end >= 0}

    def _epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, tuple[int, int]]:
        ends = self._client.epoch_ends(epochs) if epochs else {}
        self._ends.cut(ends)
        return ends

    def _begin(self, partition: TopicPartition) -> int:
        begin = self._logs.begins.get(partition, 0)
        return begin if self._history is None else self._history.begin(partition, begin)

    def _ask_for_topics_of(self, shorter: Collection[SplitId]) -> None:
        """Find topics that were recreated since the last look: their logs end before their positions."""
        if shorter:
            self._client.partitions({partition.topic for partition in _partitions(shorter)})
            self._topics.observe(self._logs.leader_epochs, self._client.topic_ids)

    def _reachable_extents(self, splits: Collection[SplitId]) -> tuple[Mapping[SplitId, Extent], dict[SplitId, str]]:
        self._peeks.forget()
        self._ends.look()
        failures: dict[TopicPartition, ConnectorError] = {}
        partitions = _partitions(splits)
        begins = self._reachable(partitions, EARLIEST, failures)
        # The high watermarks come first: a transaction that ends in between only looks settled later.
        high = self._reachable(begins, LATEST, failures, "read_uncommitted")
        is_committed = self._client.config.isolation_level == "read_committed"
        ends = self._reachable(high, LATEST, failures) if is_committed else high
        if (begins, high, ends) != self._logs.answers:
            self._logs = LogEnds.of(splits, begins, high, ends)
        self._client.watch(self._logs.watched)
        self._topics.observe(self._logs.leader_epochs, self._client.topic_ids)
        gone = [p for p, failure in failures.items() if isinstance(failure, UnknownPartitionError)]
        if gone and self._fail_on_data_loss:
            raise DataLossError(
                f"the Kafka partition {min(gone).split_id} was deleted while it was read; "
                "set failOnDataLoss to false to continue without it"
            )
        return self._extents(), {p.split_id: str(failures[p]) for p in failures.keys() - set(gone)}

    def _extents(self) -> Mapping[SplitId, Extent]:
        """Return the extents of the logs with what is archived of them.

        Raises DataLossError if an archive has records that Kafka took back.
        """
        history = self._history
        if history is None:
            return self._logs.extents
        ends = self.ends_under(history.epochs)
        kept = {split: min(high, ends.get(split, high)) for split, high in self._logs.high.items()}
        beyond = history.beyond(kept)
        self._ask_for_topics_of(beyond)  # nothing is archived of a topic that was recreated
        for split in beyond:
            history.check_kept(split, kept[split])
        history.epochs.update({split: self._logs.leader_epochs[TopicPartition.of(split)] for split in ends})
        return history.extents(self._logs)

    def _reachable(
        self,
        partitions: Collection[TopicPartition],
        point: int,
        failures: dict[TopicPartition, ConnectorError],
        isolation_level: IsolationLevel | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        offsets, failed = self._client.reachable_offsets(partitions, point, isolation_level=isolation_level)
        failures.update(failed)
        return offsets

    def _asked(self, ask: Callable[[], _Answer]) -> _Answer:
        """Return an answer about partitions.  Raises PositionGoneError if one was deleted meanwhile."""
        try:
            return ask()
        except UnknownPartitionError as error:
            raise PositionGoneError(str(error)) from None

    def cost(self, ranges: Mapping[SplitId, SplitRange]) -> Cost:
        """Return offsets as rows, and bytes by the sizes of archived objects and the mean size of the records seen."""
        archived, in_kafka = (0, ranges) if self._history is None else self._history.split_by_seam(ranges)
        mean = self._find_head.bytes_per_record
        size = int(sum((r.end - r.start) * mean(TopicPartition.of(s)) for s, r in in_kafka.items()))
        return Cost(sum(r.end - r.start for r in ranges.values()), archived + size)

    def peek(self, positions: Positions, horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Look at the first visible record that counts at or after each position, first in the archive."""
        archived, left = ({}, positions) if self._history is None else self._history.peek(positions, horizon)
        return {**archived, **self._peek(left, partial(self._find_head, horizon), self._peeks)}

    def held(self, ranges: Collection[SplitRange], horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Look through ranges, which executors read once more."""
        ends = {r.split_id: r.end for r in ranges}
        starts = {r.split_id: r.start for r in ranges}
        archived, left = ({}, starts) if self._history is None else self._history.held(ranges, horizon)
        find = partial(self._find_head.first_held, horizon, ends)
        heads = self._peek({split: at for split, at in left.items() if at < ends[split]}, find, PeekCache(0))
        inside = {split: head for split, head in heads.items() if head is not None and head.position < ends[split]}
        return {**dict.fromkeys(ends), **archived, **inside}

    def _peek(self, positions: Positions, find: FindHead, cache: PeekCache) -> dict[SplitId, Head | None]:
        at = {TopicPartition.of(split): position for split, position in positions.items()}
        useful_bytes = self._find_head.useful_bytes
        heads = self._asked(lambda: peek(self._client, at, find, cache, self._topics.ids, useful_bytes=useful_bytes))
        return {split: heads[partition] for split, partition in zip(positions, at, strict=True)}

    def metrics(self) -> Mapping[str, int]:
        """Return what this run has read from the archive, if there is one."""
        return {} if self._history is None else self._history.metrics()

    def snapshot(self) -> Json | None:
        """Return the cluster and the topics that the offsets belong to, and the detected unit."""
        event_times = self._find_head.event_times
        unit = getattr(event_times.assigner, "unit", None) if self._detects_unit else None
        name = None if unit is None else event_times.name
        version = None if self._history is None else self._history.version
        topics = self._topics.snapshot()
        ends = self._ends.snapshot()
        return KafkaSnapshot(self._cluster_id, unit, name, topics, self._taken_over_ms, version, ends).to_json() or None

    def has_news(self, stored: Json | None) -> bool:
        """Return whether ends by time were found or forgotten: the records at them may soon be deleted."""
        return self._stopping is not None and KafkaSnapshot.from_json(stored).ends != self._ends.snapshot()

    def own_progress(self, positions: Positions, ends: Positions) -> Json:
        """Return what dashboards of Spark's built-in source look at."""
        return progress_by_topic(positions, ends)

    def commit(self, positions: Positions) -> None:
        """Commit positions in the background, if there is a group; leave out topics that were recreated."""
        if self._commits is None or not positions:
            return
        if not self._met:  # the positions may belong to another cluster, and must not reach the group of this one
            self.discover()
        recreated = {topic for topic, now in self._client.topic_ids.items() if self._topics.is_another(topic, now)}
        committable = {partition for partition in self._found if partition.topic not in recreated}
        at = {TopicPartition.of(split): position for split, position in positions.items()}
        self._commits.commit({partition: position for partition, position in at.items() if partition in committable})

    def close(self) -> None:
        """Close the connections, after the last commit to the group."""
        if self._commits is not None:
            self._commits.close()
        self._client.close()

    def _recognise_cluster(self) -> None:
        before, now = self._cluster_id, self._client.cluster_id
        if now is None:
            return
        if before not in {None, now}:
            sentence = f"the checkpoint's offsets are of the Kafka cluster {before}, but {now} answers"
            if self._fail_on_data_loss:
                raise CheckpointError(
                    f"{sentence} at {self._client.config.bootstrap_servers}; start with a new checkpoint, "
                    "or set failOnDataLoss to false once if the new cluster holds the same offsets"
                )
            _LOG.warning("%s; it is taken to hold the same offsets", sentence)
        self._cluster_id = now


class KafkaTimestampEnumerator(KafkaEnumerator):
    """Knows the positions of event times without reading: Kafka indexes record timestamps."""

    def lookup(self, event_time_ms: int, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Find the first entry of each log at or after a time."""
        return self.lookup_each(dict.fromkeys(positions, event_time_ms), positions)

    def lookup_each(self, times_ms: Mapping[SplitId, int], positions: Positions) -> Mapping[SplitId, Head | None]:
        """Find the first entry of each split at or after a time of its own; it may be a transaction marker.

        The archive is searched from the positions on, and Kafka from the beginning of its log.
        """
        archived = {} if self._history is None else self._history.lookup(times_ms, positions)
        left = {TopicPartition.of(split): at_ms for split, at_ms in times_ms.items() if split not in archived}
        answers = self._asked(lambda: look_up(self._client, left)) if left else {}
        return {**archived, **{partition.split_id: head for partition, head in answers.items()}}

    def latest(self, ends: Positions, horizon: Horizon) -> Mapping[SplitId, int | None]:
        """Ask for the greatest timestamp; leave a partition to peeks if it is not that of a record before the end."""
        begins = {split: self._begin(TopicPartition.of(split)) for split in ends}
        wanted = {TopicPartition.of(s): MAX_TIMESTAMP for s in ends}
        answers = self._asked(lambda: self._client.list_offsets(wanted))
        # Kafka may also name a record that was deleted.
        candidates = {
            s: Head(*listed) for p, listed in answers.items() if begins[s := p.split_id] <= listed[0] < ends[s]
        }
        seen = self.peek({s: head.position for s, head in candidates.items()}, horizon) if candidates else {}
        latest = {s: head.event_time_ms for s, head in candidates.items() if seen[s] == head}
        return latest if self._history is None else self._history.latest(ends, horizon, latest)


def _partitions(splits: Collection[SplitId]) -> list[TopicPartition]:
    return [TopicPartition.of(split) for split in splits]


def _by_split(offsets: Mapping[TopicPartition, int]) -> dict[SplitId, int]:
    return {partition.split_id: offset for partition, offset in offsets.items()}
