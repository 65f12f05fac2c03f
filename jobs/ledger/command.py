"""What ``tidegate ledger`` was asked for, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.errors import OptionError
from tidegate.jobs.backfill.arguments import parse_options, parse_time
from tidegate.jobs.backfill.command import OPTION_EXAMPLE
from tidegate.jobs.ledger.listed import Wanted
from tidegate.jobs.ledger.query_ledger import forget_query, list_queries, open_query_ledger
from tidegate.jobs.ledger.reread import reread_batches, reread_objects
from tidegate.jobs.ledger.show import show_asked, show_ledger, show_queries, show_why
from tidegate.jobs.ledger.why import why
from tidegate.sources.s3.source import S3Source

__all__ = ["RereadArguments", "run_ledger"]

_NO_PATH = "s3://not-given"


@dataclass(frozen=True, slots=True)
class RereadArguments:
    """What is to be read again; nothing of it: nothing is."""

    objects: str | None = None
    begin: str | None = None
    end: str | None = None
    batches: str | None = None


def run_ledger(
    location: str,
    wanted: str | None,
    *,
    checkpoint: str | None,
    options: Sequence[str] | None,
    reread: RereadArguments,
    queries: bool = False,
    forget: str | None = None,
    as_json: bool,
) -> None:
    """Print what a state location knows, or why an object was read, or ask to read again.

    location: what the query calls ``stateLocation``.
    wanted: a key, or a glob of keys; None: all is told in short.
    options: of the source, as NAME=VALUE.
    queries: tell which queries keep something there.
    forget: delete what this one keeps.

    Raises OptionError, one sentence, for what contradicts itself or names nothing.
    """
    given = {name.lower(): value for name, value in parse_options("--option", options or (), OPTION_EXAMPLE).items()}
    has_path = "path" in given
    source = S3Source.from_options({"path": _NO_PATH, **given, "statelocation": location})
    by_object = reread.objects or reread.begin or reread.end
    if wanted is not None and (by_object or reread.batches):
        raise OptionError(f"{wanted!r} is asked about, and something is to be read again; do one after the other")
    if by_object and reread.batches:
        raise OptionError("--reread-batches goes with none of --reread, --reread-from and --reread-to")
    if by_object and not has_path:
        raise OptionError("to read objects again, --option path=s3://... is needed, and the query's other options")
    if queries or forget is not None:
        if wanted is not None or by_object or reread.batches or checkpoint is not None or (queries and forget):
            raise OptionError("--queries and --forget go with no other question, and not with each other")
        found = list_queries(source) if forget is None else [forget_query(source, forget)]
        show_queries(found, forgotten=not queries, as_json=as_json)
        return
    ledger = open_query_ledger(source, checkpoint)
    if reread.batches:
        show_asked(reread_batches(ledger, reread.batches), as_json=as_json)
    elif by_object:
        begin = None if reread.begin is None else parse_time("--reread-from", reread.begin)
        end = None if reread.end is None else parse_time("--reread-to", reread.end)
        objects = Wanted(reread.objects or f"{source.listing_rules.prefix}*")
        show_asked(reread_objects(ledger, source, objects, begin, end), as_json=as_json)
    elif wanted is not None:
        show_why(why(ledger, source if has_path else None, Wanted(wanted)), as_json=as_json)
    else:
        show_ledger(ledger, as_json=as_json)
