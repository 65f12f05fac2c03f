"""Runs the development Kafka in the foreground, and adds topics to it."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

import typer

from tidegate.errors import OptionError, ServerError
from tidegate.jobs.files import writing
from tidegate.jobs.session import ends_on_signals
from tidegate.servers import KafkaServer
from tidegate.servers.server import HOST, accepts

_LOOK_AGAIN_S = 0.5
_KAFKAS_PORT = 9092  # as of Kafka's own tools
_ANSWER_MS = 3_000  # in which a Kafka on this machine must answer


def serve_kafka(
    topics: Iterable[str], *, brokers: int = 1, port: int | None = None, folder: Path | None = None
) -> None:
    """Run Kafka until SIGINT or SIGTERM; nothing is left behind.

    Prints the bootstrap servers to stdout, alone on the first line, when clients may connect.
    topics: each ``name`` or ``name:partitions``; created unless they are in ``folder`` already.
    port: the port of the first broker; further brokers have the next ports.  Default: any free ports.

    Raises OptionError for a malformed topic or a folder that cannot be written, ServerError if Kafka cannot start or
    ends by itself.
    """
    wanted = dict(_topic(text, "--topic") for text in topics)
    server = KafkaServer(port=port, brokers=brokers, folder=folder)
    _require_writable(folder)
    typer.echo("Kafka starts.", err=True)
    try:
        with ends_on_signals(), server:
            for name, partitions in wanted.items():
                _create(server, name, partitions)
            typer.echo(server.bootstrap_servers)
            typer.echo("Kafka is ready; Ctrl-C ends it.", err=True)
            # This event is never set: the wait can be interrupted, and checks the processes.
            while server.is_whole:
                threading.Event().wait(_LOOK_AGAIN_S)
            raise ServerError("a process of Kafka ended by itself")
    except KeyboardInterrupt:
        typer.echo("Kafka has ended.", err=True)


def add_topics(topics: Iterable[str], *, port: int | None = None) -> None:
    """Create topics in a Kafka that runs on this machine, and print each when it can be used.

    topics: each ``name`` or ``name:partitions``.
    port: the port of one of its brokers.  Default: 9092.

    Raises OptionError for a malformed topic, or one that is there already; ServerError if no Kafka answers.
    """
    from kafka import KafkaAdminClient
    from kafka.errors import InvalidTopicError, KafkaTimeoutError, TopicAlreadyExistsError

    wanted = dict(_topic(text, "--add-topic") for text in topics)
    port = port or _KAFKAS_PORT
    servers = f"{HOST}:{port}"
    nobody = f"no Kafka answers at {servers}; start one with `tidegate kafka --port {port}`, or give another --port"
    if not accepts(port):
        raise ServerError(nobody)
    try:
        with KafkaAdminClient(bootstrap_servers=servers, bootstrap_timeout_ms=_ANSWER_MS) as admin:
            for name, partitions in wanted.items():
                topic = {"num_partitions": partitions, "replication_factor": 1}
                admin.create_topics({name: topic}, wait_for_metadata=True)
                typer.echo(f"{name}:{partitions} is a topic of {servers}")
    except TopicAlreadyExistsError as error:
        raise OptionError(f"--add-topic is {name!r}, but {servers} has a topic of that name") from error
    except InvalidTopicError as error:
        raise OptionError(f"--add-topic is {name!r}, which Kafka refuses as a topic's name") from error
    except KafkaTimeoutError as error:  # something else listens
        raise ServerError(nobody) from error


def _require_writable(folder: Path | None) -> None:
    """Create the folder of the data, and check that it can be written to."""
    if folder is None:
        return
    with writing("--folder", folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def _create(server: KafkaServer, name: str, partitions: int) -> None:
    from kafka.errors import InvalidTopicError, TopicAlreadyExistsError

    try:
        server.create_topic(name, partitions)
    except TopicAlreadyExistsError:
        return  # an earlier start with the same folder made it
    except InvalidTopicError as error:
        raise OptionError(f"--topic is {name!r}, which Kafka refuses as a topic's name") from error


def _topic(text: str, option: str) -> tuple[str, int]:
    name, _, partitions = text.partition(":")
    if not name or (partitions and not (partitions.isdecimal() and int(partitions))):
        raise OptionError(f"{option} is {text!r}, but NAME or NAME:PARTITIONS is expected, such as orders:4")
    return name, int(partitions or 1)
