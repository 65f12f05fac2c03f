"""The source of a back-fill, and what later runs into the same output must repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from tidegate.enumerators.contract import Json
from tidegate.errors import CheckpointError, OptionError
from tidegate.jobs.arguments import parse_options, parse_properties, parse_time
from tidegate.jobs.backfill.output import Output
from tidegate.sources.kafka.java.file import read_properties
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.s3.source import S3Source
from tidegate.sources.source import Source

_STATE = "stateLocation"
_TIMES = {"--from": "starting_timestamp", "--to": "ending_timestamp"}
_OF_TOPICS = {
    "--topic": "subscribe",
    "--option includeHeaders": "include_headers",
    "--option includeEventTime": "include_event_time",
    "--kafka isolation.level": "isolation_level",
    **_TIMES,
}
_OF_OBJECTS = {
    "--path": "path",
    "--option fileFormat": "file_format",
    "--option pathGlobFilter": "path_glob_filter",
    "--option recursiveFileLookup": "recursive_file_lookup",
    "--option modifiedAfter": "modified_after",
    "--option modifiedBefore": "modified_before",
    "--option columns": "columns",
    **_TIMES,
}


def backfill_source(
    out: Path,
    *,
    max_drift: str,
    max_out_of_orderness: str,
    begin: str | None,
    end: str | None,
    options: Sequence[str],
    path: str | None,
    of_kafka: Mapping[str, Any],
) -> Source:
    """Return the source that the options of the command describe.

    begin, end: a range of event times, the end exclusive.  A Kafka partition is read from its first record at or after
        ``begin`` up to its first record at or after ``end``.
    options: further Spark options of the source; they may be secret.
    of_kafka: the options for Kafka; None or empty: not given.

    Raises OptionError, one sentence, if no source is named, or both are, for a malformed option, and for one that
    contradicts another.
    """
    further = parse_options("--option", options)
    named = {name.lower() for name in further}
    begin_at, end_at = _time("--from", begin), _time("--to", end)
    if begin_at is not None and end_at is not None and begin_at >= end_at:
        raise OptionError(f"--from is {begin}, but it must lie before --to {end}")
    own = {
        "maxDrift": max_drift,
        "maxOutOfOrderness": max_out_of_orderness,
        **({} if begin_at is None else {"startingTimestamp": begin_at.isoformat()}),
        **({} if end_at is None else {"endingTimestamp": end_at.isoformat()}),
    }
    given = {name: value for name, value in of_kafka.items() if value}
    if path is None:
        own |= _of_topics(given, has_begin=begin is not None, has_end=any(name.startswith("ending") for name in named))
    elif given:
        raise OptionError(f"{next(iter(given))} is for Kafka, and --path for objects of S3; give one of them")
    else:
        own |= {"path": path} | ({} if _STATE.lower() in named else {_STATE: str(Output(out).kept)})
    if contradicted := [name for name in further if name.lower() in {option.lower() for option in own}]:
        raise OptionError(f"--option {contradicted[0]} is set by the command itself; leave it out")
    return (KafkaSource if path is None else S3Source).from_options({**own, **further})


def _of_topics(given: Mapping[str, Any], *, has_begin: bool, has_end: bool) -> dict[str, str]:
    """Return the options of a Kafka source."""
    file = given.get("--kafka-properties")
    client = {} if file is None else read_properties("--kafka-properties", file)
    given = {"--bootstrap-servers": client.pop("bootstrap.servers", None), **given}
    if missing := [name for name in ("--bootstrap-servers", "--topic") if not given.get(name)]:
        are_missing = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise OptionError(f"{are_missing}: give --bootstrap-servers and --topic, or --path for objects of S3")
    client |= parse_properties("--kafka", given.get("--kafka", ()))
    return {
        "kafka.bootstrap.servers": given["--bootstrap-servers"],
        "subscribe": ",".join(given["--topic"]),
        # A partition that ends before --from has nothing to read, without an error.
        "startingOffsetsByTimestampStrategy": "latest",
        **{f"kafka.{name}": value for name, value in client.items()},
        **({} if has_begin else {"startingOffsets": "earliest"}),
        # Files need no watermark, so no partition waits for later records of another.  --to comes before this.
        **({} if has_end else {"endingOffsets": "latest"}),
    }


def _time(option: str, text: str | None) -> datetime | None:
    return None if text is None else parse_time(option, text)


def binding(source: Source) -> dict[str, Any]:
    """Return, by option, the values that decide which rows are written: no later run may change them.

    Addresses may change, and so may options that only affect the cuts of batches.  No value is secret.
    """
    fields = _OF_TOPICS if isinstance(source, KafkaSource) else _OF_OBJECTS
    return {option: _noted(getattr(source, field)) for option, field in fields.items()}


def _noted(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return [*value] if isinstance(value, tuple) else value


def look(source: Source, state: Json | None) -> None:
    """Ask the brokers for the topics before Spark starts, which takes long, so that a wrong argument is told at once.

    Objects are left to the query: another look would list and survey all of them twice.
    state: the snapshot after the last written batch.

    Raises OptionError if it belongs to another source, and the errors of ``SplitEnumerator.discover``.
    """
    if not isinstance(source, KafkaSource):
        return
    try:
        with closing(source.enumerator(state)) as enumerator:
            enumerator.discover()
    except CheckpointError as error:
        raise OptionError(
            f"--bootstrap-servers is {source.bootstrap_servers}, which is another Kafka cluster than the one that "
            "the output was begun with; give that one, or another --out"
        ) from error
