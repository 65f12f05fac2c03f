"""The commands ``tidegate ledger``."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

__all__ = ["SourceOptions", "ledger"]

SourceOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="An option of the source, such as eventTime=column:at; may be repeated. Other users of this machine can "
        "see it, so keep secrets where boto3 finds them.",
    ),
]
_Location: TypeAlias = Annotated[
    str, typer.Argument(metavar="PATH", help="The stateLocation of the query: a folder, or s3://bucket/prefix.")
]
_Checkpoint: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="DIR", show_default="none", help="The checkpointLocation of the query, which shows what was read."
    ),
]

ledger = typer.Typer(help="Show what an S3 query has found and read, and read objects again.", no_args_is_help=True)


@ledger.command()
def show(location: _Location, *, checkpoint: _Checkpoint = None, option: SourceOptions = None) -> None:
    """Show which query uses the state location, which objects it has found, and how many of them it has read."""
    from tidegate.jobs.ledger.command import run_show

    run_show(location, checkpoint=checkpoint, options=option or ())


@ledger.command()
def why(
    location: _Location,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="The object's key, or a glob in which * also stands for /.")
    ],
    *,
    checkpoint: _Checkpoint = None,
    option: SourceOptions = None,
) -> None:
    """Say why an object was read, or was not.

    The bucket is searched only with --option path=... and the other options of the query.
    """
    from tidegate.jobs.ledger.command import run_why

    run_why(location, key, checkpoint=checkpoint, options=option or ())


@ledger.command()
def reread(
    location: _Location,
    objects: Annotated[
        str | None, typer.Argument(metavar="GLOB", show_default="all", help="The objects to read again.")
    ] = None,
    *,
    checkpoint: Annotated[
        str, typer.Option(metavar="DIR", help="The checkpointLocation of the query, which shows what was read.")
    ],
    begin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", show_default="earliest", help="Only chunks with event times at or after it."
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", show_default="latest", help="Only chunks with event times before it."),
    ] = None,
    option: SourceOptions = None,
) -> None:
    """Let the query read objects or event times once more. Their rows are then delivered twice.

    It needs --option path=... and the other options of the query.

    A TIME is ISO 8601, in UTC unless it has a zone, or milliseconds since 1970.
    """
    from tidegate.jobs.ledger.command import run_reread

    run_reread(
        location,
        objects,
        begin=begin,
        end=end,
        checkpoint=checkpoint,
        options=option or (),
    )
