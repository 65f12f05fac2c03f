"""The source that a command reads: topics, or objects of S3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.errors import OptionError
from tidegate.jobs.arguments import parse_options, parse_properties
from tidegate.sources.kafka.java.file import read_properties
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.s3.source import S3Source
from tidegate.sources.source import Source


def named_source(
    path: str | None, of_kafka: Mapping[str, Any], own: Mapping[str, Any], options: Sequence[str] | None
) -> Source:
    """Return the source that the options of a command describe.

    path: ``--path``.
    of_kafka: the options for Kafka; None or empty: not given.
    own: the options of the source that the command sets; None: not given.
    options: further Spark options of the source; they may be secret.

    Raises OptionError, one sentence, if no source is named, or both are, for a malformed option, and for one that
    contradicts another.
    """
    given = {name: value for name, value in of_kafka.items() if value}
    if path is not None and given:
        raise OptionError(f"{next(iter(given))} is for Kafka, and --path for objects of S3; give one of them")
    own = {name: str(value) for name, value in own.items() if value is not None}
    own |= topic_options(given) if path is None else {"path": path}
    further = parse_options("--option", options)
    if contradicted := [name for name in further if name.lower() in {option.lower() for option in own}]:
        raise OptionError(f"--option {contradicted[0]} is set by the command itself; leave it out")
    return (KafkaSource if path is None else S3Source).from_options({**own, **further})


def topic_options(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a source for the options of a command for Kafka; None or empty: not given.

    Raises OptionError, one sentence, if servers or topics are missing, and for malformed properties.
    """
    file = given.get("--kafka-properties")
    client = {} if file is None else read_properties("--kafka-properties", file)
    given = {"--bootstrap-servers": client.pop("bootstrap.servers", None), **given}
    if missing := [name for name in ("--bootstrap-servers", "--topic") if not given.get(name)]:
        are_missing = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise OptionError(f"{are_missing}: give --bootstrap-servers and --topic, or --path for objects of S3")
    client |= parse_properties("--kafka", given.get("--kafka"))
    return {
        "kafka.bootstrap.servers": given["--bootstrap-servers"],
        "subscribe": ",".join(given["--topic"]),
        **{f"kafka.{name}": value for name, value in client.items()},
    }
