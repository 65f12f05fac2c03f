"""The commands ``tidegate ledger``."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeAlias

import typer

from tidegate.cli_options import SourceOptions, an_argument, an_option

__all__ = ["ledger"]

_Location: TypeAlias = Annotated[
    str, an_argument("PATH", "The stateLocation of the query: a folder, or s3://bucket/prefix.")
]
_Checkpoint: TypeAlias = Annotated[
    str | None, an_option("DIR", "The checkpointLocation of the query, which shows what was read.", shown="none")
]

ledger = typer.Typer(help="Show what an S3 query has found and read.", no_args_is_help=True)


def print_answer(answer: Any) -> None:
    """Print an answer as JSON, with escapes: a key may hold a command for the terminal."""
    typer.echo(json.dumps(answer, indent=1))


@ledger.command()
def show(location: _Location, *, checkpoint: _Checkpoint = None, option: SourceOptions = None) -> None:
    """Show which query uses the state location, which objects it has found, and how many of them it has read."""
    from tidegate.jobs.ledger import open_query_ledger

    print_answer(open_query_ledger(location, checkpoint, option).to_json())


@ledger.command()
def why(
    location: _Location,
    key: Annotated[str, an_argument("KEY", "The object's key, or a glob in which * also stands for /.")],
    *,
    checkpoint: _Checkpoint = None,
    option: SourceOptions = None,
) -> None:
    """Say why an object was read, or was not.

    The bucket is searched only with --option path=... and the other options of the query.
    """
    from tidegate.jobs.ledger import Wanted, open_query_ledger, why_of

    print_answer(why_of(open_query_ledger(location, checkpoint, option), Wanted(key)))
