"""The development Kafka in the foreground."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from tidegate.errors import OptionError, ServerError
from tidegate.jobs.session import ends_on_signals
from tidegate.servers import KafkaServer

__all__ = ["serve_kafka"]

_LOOK_AGAIN_S = 0.5


def serve_kafka(topics: Iterable[str], brokers: int = 1, folder: Path | None = None) -> None:
    """Run Kafka until SIGINT or SIGTERM; nothing is left behind.

    Prints the bootstrap servers to stdout, alone on the first line, when clients may connect.
    topics: each ``name`` or ``name:partitions``; created unless they are in ``folder`` already.

    Raises OptionError for a malformed topic, ServerError when Kafka cannot start or ends by itself.
    """
    wanted = dict(_topic(text) for text in topics)
    output, errors = Console(), Console(stderr=True)
    try:
        with ends_on_signals(), KafkaServer(brokers=brokers, folder=folder) as server:
            for name, partitions in wanted.items():
                _create(server, name, partitions)
            output.print(server.bootstrap_servers, soft_wrap=True, highlight=False)
            errors.print("Kafka is ready; Ctrl-C ends it.", highlight=False)
            # An event that nobody sets: waiting for it can be interrupted, and looks after the brokers.
            while len(server.pids) == brokers:
                threading.Event().wait(_LOOK_AGAIN_S)
            raise ServerError("a Kafka broker ended by itself")
    except KeyboardInterrupt:
        errors.print("Kafka has ended.", highlight=False)


def _create(server: KafkaServer, name: str, partitions: int) -> None:
    from kafka.errors import InvalidTopicError, TopicAlreadyExistsError

    try:
        server.create_topic(name, partitions)
    except TopicAlreadyExistsError:
        return  # an earlier start with the same folder made it
    except InvalidTopicError as error:
        raise OptionError(f"--topic is {name!r}, which Kafka refuses as a topic's name") from error


def _topic(text: str) -> tuple[str, int]:
    name, _, partitions = text.partition(":")
    if not name or (partitions and not (partitions.isdecimal() and int(partitions))):
        raise OptionError(f"--topic is {text!r}, but NAME or NAME:PARTITIONS is expected, such as orders:4")
    return name, int(partitions or 1)
