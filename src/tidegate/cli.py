"""The command line.  What the commands do stands in ``tidegate.jobs``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidegate.errors import TidegateError

__all__ = ["app", "main"]

_KILLED_BY = 128  # what a shell adds to the signal in the exit code

app = typer.Typer(
    help="Read Kafka with Spark in event-time order across partitions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line.

    An error of the caller's, the data's or the servers' ends as one sentence and exit code 1.
    """
    try:
        app()
    except TidegateError as error:
        sys.exit(f"tidegate: {error}")


@app.command()
def backfill(  # noqa: PLR0913 - parameters are options
    *,
    bootstrap_servers: Annotated[str, typer.Option(help="HOST:PORT, several separated by commas.")],
    topic: Annotated[list[str], typer.Option(help="May be repeated.")],
    max_drift: Annotated[
        str, typer.Option(help="How far, in event time, one micro-batch goes for all partitions, such as '1 hour'.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the Parquet files; one that a killed run left is resumed.")],
    begin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", show_default="earliest", help="Begin at the first record at or after it."
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TIME", show_default="the present end", help="Stop before the first record at or after it."
        ),
    ] = None,
    max_out_of_orderness: Annotated[
        str, typer.Option(help="How far records may lie behind earlier ones of their partition.")
    ] = "0 seconds",
    max_rows_per_batch: Annotated[
        int | None, typer.Option(min=1, show_default="any number", help="At most so many offsets a batch.")
    ] = None,
    include_headers: Annotated[bool, typer.Option("--include-headers", help="Write the records' headers too.")] = False,
    kafka: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A property of the Kafka client; may be repeated. Others can see it: give secrets in a file.",
        ),
    ] = None,
    kafka_properties: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="none",
            help="Properties of the Kafka client, such as security: lines of key=value; --kafka comes on top.",
        ),
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
) -> None:
    """Write a topic's history to Parquet, aligned in event time.

    Kill it and run it again: nothing is lost, and nothing is written twice. Run it again when it is
    complete, and it writes what is new.

    A TIME is ISO 8601, in UTC where it names no zone, or milliseconds since 1970.
    """
    from tidegate.jobs.arguments import BackfillArguments, parse_properties, parse_span, parse_time
    from tidegate.jobs.properties import read_properties
    from tidegate.jobs.show import show_backfill

    in_file = {} if kafka_properties is None else read_properties("--kafka-properties", kafka_properties)
    arguments = BackfillArguments(
        bootstrap_servers=bootstrap_servers,
        topics=tuple(topic),
        max_drift=parse_span("--max-drift", max_drift),
        begin=None if begin is None else parse_time("--from", begin),
        end=None if end is None else parse_time("--to", end),
        max_out_of_orderness=parse_span("--max-out-of-orderness", max_out_of_orderness),
        max_rows_per_batch=max_rows_per_batch,
        include_headers=include_headers,
        kafka={**in_file, **parse_properties("--kafka", kafka or [])},
    )
    try:
        show_backfill(arguments, out, master)
    except KeyboardInterrupt as interrupt:
        typer.echo("tidegate: stopped; the same command goes on from here", err=True)
        raise typer.Exit(_exit_code(interrupt)) from None


@app.command()
def demo(
    rows: Annotated[int, typer.Option(help="Rows in the skewed topic.")] = 3_300_000,
    html: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("tidegate-demo.html"),
) -> None:
    """Count a skewed topic twice, unaligned and aligned, and show what was lost."""
    from tidegate.jobs.show import show_demo

    try:
        show_demo(rows, html)
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(_exit_code(interrupt)) from None


@app.command()
def kafka(
    topic: Annotated[list[str] | None, typer.Option(help="NAME or NAME:PARTITIONS to create; may be repeated.")] = None,
    brokers: Annotated[int, typer.Option(min=1, help="Number of brokers.")] = 1,
    folder: Annotated[Path | None, typer.Option(show_default="none", help="Keeps the data for the next start.")] = None,
) -> None:
    """Run a Kafka for development until Ctrl-C."""
    from tidegate.jobs.serve import serve_kafka

    serve_kafka(topic or [], brokers, folder)


@app.command()
def s3(
    bucket: Annotated[list[str] | None, typer.Option(help="NAME to create; may be repeated.")] = None,
    folder: Annotated[
        Path | None, typer.Option(show_default="none", help="Holds a folder per bucket, and keeps them.")
    ] = None,
) -> None:
    """Run an S3 endpoint for development until Ctrl-C."""
    from tidegate.jobs.serve import serve_s3

    serve_s3(bucket or [], folder)


@app.command()
def watch(
    *, once: Annotated[bool, typer.Option("--once", help="Print the table once, instead of until Ctrl-C.")] = False
) -> None:
    """Show the sources of your running queries on this machine: how far they are, and what holds them."""
    from tidegate.jobs.live import show_live

    show_live(once=once)


def _exit_code(interrupt: KeyboardInterrupt) -> int:
    return _KILLED_BY + (interrupt.args[0] if interrupt.args else signal.SIGINT)
