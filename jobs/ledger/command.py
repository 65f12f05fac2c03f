"""The commands of ``tidegate ledger``: each reads its arguments and prints its answer."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import OptionError
from tidegate.jobs.arguments import parse_options, parse_time
from tidegate.jobs.ledger.listed import Wanted
from tidegate.jobs.ledger.query_ledger import open_query_ledger
from tidegate.jobs.ledger.reread import reread_objects
from tidegate.jobs.ledger.show import described, show
from tidegate.jobs.ledger.why import why
from tidegate.sources.s3.source import S3Source

_NO_PATH = "s3://not-given"


def run_show(location: str, *, checkpoint: str | None, options: Sequence[str]) -> None:
    """Print the ledger of the query in a state location.

    checkpoint: Spark's checkpoint folder of the query, which tells what chunks were read.
    options: the options of the source, as NAME=VALUE.

    Like the other commands, raises OptionError, one sentence, for contradictory arguments and for unknown names.
    """
    source, _ = _source(location, options)
    show(described(open_query_ledger(source, checkpoint)))


def run_why(location: str, wanted: str, *, checkpoint: str | None, options: Sequence[str]) -> None:
    """Print why objects, by a key or a glob, were read or not; with the path among the options, ask the bucket, too."""
    source, has_path = _source(location, options)
    ledger = open_query_ledger(source, checkpoint)
    show(why(ledger, source if has_path else None, Wanted(wanted)))


def run_reread(
    location: str,
    objects: str | None,
    *,
    begin: str | None,
    end: str | None,
    checkpoint: str,
    options: Sequence[str],
) -> None:
    """Ask the query to read chunks again, and print the request.

    objects: a key, or a glob of keys, instead of all of the path.
    begin, end: only chunks with event times in this range.
    """
    source, has_path = _source(location, options)
    if not (objects or begin or end):
        raise OptionError("nothing to read again is named: give GLOB, or --from and --to")
    if not has_path:
        raise OptionError("to read objects again, --option path=s3://... is needed, and the query's other options")
    ledger = open_query_ledger(source, checkpoint)
    begin_at = None if begin is None else parse_time("--from", begin)
    end_at = None if end is None else parse_time("--to", end)
    wanted = Wanted(objects or f"{source.listing_rules.prefix}*")
    show(reread_objects(ledger, source, wanted, begin_at, end_at))


def _source(location: str, options: Sequence[str]) -> tuple[S3Source, bool]:
    """Return the source with the state location, and whether its path is given."""
    set_options = {name.lower(): value for name, value in parse_options("--option", options).items()}
    return S3Source.from_options({"path": _NO_PATH, **set_options, "statelocation": location}), "path" in set_options
