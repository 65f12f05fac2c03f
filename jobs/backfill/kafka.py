"""The arguments of a back-fill from Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tidegate.enumerators.contract import Json
from tidegate.errors import CheckpointError, OptionError
from tidegate.jobs.backfill.arguments import BackfillArguments
from tidegate.sources.kafka.source import KafkaSource


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaArguments(BackfillArguments):
    """The topics to read.

    kafka: properties of the client, such as security; they may be secret.
    """

    bootstrap_servers: str
    topics: tuple[str, ...]
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)

    def source(self) -> KafkaSource:
        """Return the topics as a source."""
        return KafkaSource.from_options(self.source_options())

    def _own_options(self) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "subscribe": ",".join(self.topics),
            # A partition that ends before --from has nothing to read, without an error.
            "startingOffsetsByTimestampStrategy": "latest",
            **{f"kafka.{name}": value for name, value in self.kafka.items()},
        }
        if self.begin is None:
            options["startingOffsets"] = "earliest"
        if not any(name.lower().startswith("ending") for name in self.options):
            # Files need no watermark, so no partition waits for later records of another.  --to comes before this.
            options["endingOffsets"] = "latest"
        return options

    def binding(self) -> dict[str, Any]:
        """Add the topics, and what decides the columns and whether open transactions are read."""
        source = self.source()
        return {
            "--topic": list(self.topics),
            "--option includeHeaders": source.include_headers,
            "--option includeEventTime": source.include_event_time,
            "--kafka isolation.level": source.isolation_level,
            **BackfillArguments.binding(self),  # super() and slots do not go together
        }

    def look(self, state: Json | None) -> None:
        """Ask the brokers for the topics."""
        try:
            with closing(self.source().enumerator(state)) as enumerator:
                enumerator.discover()
        except CheckpointError as error:
            raise OptionError(
                f"--bootstrap-servers is {self.bootstrap_servers}, which is another Kafka cluster than the one "
                "that the output was begun with; give that one, or another --out"
            ) from error
