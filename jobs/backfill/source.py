"""The source of a back-fill, and what later runs into the same output must repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from tidegate.enumerators.contract import Json
from tidegate.errors import CheckpointError, OptionError
from tidegate.jobs.arguments import named_source, parse_options, parse_time, span_text
from tidegate.jobs.backfill.output import Output
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.source import Source

_STATE = "stateLocation"
_BOUND_STATE = f"--option {_STATE}"
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
    _BOUND_STATE: "state_location",
    **_TIMES,
}


def backfill_source(
    out: Path,
    *,
    max_drift: str,
    max_out_of_orderness: str,
    begin: str | None,
    end: str | None,
    options: Sequence[str] | None,
    path: str | None,
    of_kafka: Mapping[str, Any],
) -> Source:
    """Return the source that the options of the command describe.

    begin, end: a range of event times, the end exclusive.  A Kafka partition is read from its first record at or after
        ``begin`` up to its first record at or after ``end``.
    Otherwise as ``named_source``.
    """
    named = {name.lower() for name in parse_options("--option", options)}
    begin_at, end_at = parse_time("--from", begin), parse_time("--to", end)
    if begin_at is not None and end_at is not None and begin_at >= end_at:
        raise OptionError(f"--from is {begin}, but it must lie before --to {end}")
    own: dict[str, Any] = {
        "maxDrift": span_text("--max-drift", max_drift),
        "maxOutOfOrderness": span_text("--max-out-of-orderness", max_out_of_orderness),
        "startingTimestamp": begin_at and begin_at.isoformat(),
        "endingTimestamp": end_at and end_at.isoformat(),
    }
    if path is None:
        # A partition that ends before --from has nothing to read, without an error.
        own["startingOffsetsByTimestampStrategy"] = "latest"
        own["startingOffsets"] = "earliest" if begin is None else None
        # Files need no watermark, so no partition waits for later records of another.  --to comes before this.
        own["endingOffsets"] = None if any(name.startswith("ending") for name in named) else "latest"
    elif _STATE.lower() not in named:
        own[_STATE] = str(Output(out).kept)
    return named_source(path, of_kafka, own, options)


def binding(source: Source, out: Path) -> dict[str, Any]:
    """Return, by option, the values that decide which rows are written: no later run may change them.

    Addresses may change, and so may options that only affect the cuts of batches.  No value is secret.
    """
    fields = _OF_TOPICS if isinstance(source, KafkaSource) else _OF_OBJECTS
    bound = {option: _noted(getattr(source, field)) for option, field in fields.items()}
    if bound.get(_BOUND_STATE) == str(Output(out).kept):  # it moves with the output
        bound[_BOUND_STATE] = None
    return bound


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
