"""Converts the options of ``tidegate backfill`` to the arguments of one connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.errors import OptionError
from tidegate.jobs.backfill.arguments import BackfillArguments, parse_options, parse_properties, parse_span, parse_time
from tidegate.jobs.backfill.kafka import KafkaArguments
from tidegate.jobs.backfill.output import Output
from tidegate.jobs.backfill.s3 import S3Arguments
from tidegate.sources.kafka.java.file import read_properties

OPTION_EXAMPLE = "NAME=VALUE, such as eventTime=column:at"


def backfill_arguments(
    out: Path,
    *,
    max_drift: str,
    max_out_of_orderness: str,
    begin: str | None,
    end: str | None,
    options: Sequence[str] | None,
    path: str | None,
    of_kafka: Mapping[str, Any],
) -> BackfillArguments:
    """Return the arguments of a back-fill.

    of_kafka: the options for Kafka; None or False: not given.

    Raises OptionError, one sentence, if no source is named, or both are, or for a malformed option.
    """
    common: dict[str, Any] = {
        "max_drift": parse_span("--max-drift", max_drift),
        "max_out_of_orderness": parse_span("--max-out-of-orderness", max_out_of_orderness),
        "begin": None if begin is None else parse_time("--from", begin),
        "end": None if end is None else parse_time("--to", end),
        "options": parse_options("--option", options or (), OPTION_EXAMPLE),
    }
    set_options = {name: value for name, value in of_kafka.items() if value}
    if path is None:
        return _of_kafka(set_options, common)
    if set_options:
        name = next(iter(set_options))
        raise OptionError(f"{name} is for Kafka, and --path for objects of S3; give one of them")
    return S3Arguments(path=path, kept=str(Output(out).kept), **common)


def _of_kafka(set_options: Mapping[str, Any], common: Mapping[str, Any]) -> KafkaArguments:
    file = set_options.get("--kafka-properties")
    in_file = {} if file is None else read_properties("--kafka-properties", file)
    servers = in_file.pop("bootstrap.servers", None)
    set_options = {**({} if servers is None else {"--bootstrap-servers": servers}), **set_options}
    if missing := [name for name in ("--bootstrap-servers", "--topic") if name not in set_options]:
        are_missing = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise OptionError(f"{are_missing}: give --bootstrap-servers and --topic, or --path for objects of S3")
    return KafkaArguments(
        bootstrap_servers=set_options["--bootstrap-servers"],
        topics=tuple(set_options["--topic"]),
        kafka={**in_file, **parse_properties("--kafka", set_options.get("--kafka", ()))},
        **common,
    )
