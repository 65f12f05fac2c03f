"""The command line.  ``tidegate.jobs`` runs the commands."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from tidegate.errors import OptionError, TidegateError, needing
from tidegate.version import __version__

__all__ = ["app", "ledger", "main"]


def an_option(value: str, meaning: str, *names: str, shown: str | bool = True, least: int | None = None) -> Any:
    """Return an option.

    value: what the help shows for its value.
    names: its names; default: that of the parameter.
    shown: what the help shows as its default; True: the default itself.
    least: the least number.
    """
    return typer.Option(*names, metavar=value, help=meaning, show_default=shown, min=least)


def an_argument(value: str, meaning: str, *, shown: str | bool = True) -> Any:
    """Return an argument; the parameters are those of an option."""
    return typer.Argument(metavar=value, help=meaning, show_default=shown)


def a_port(meaning: str) -> Any:
    """Return the option of a port."""
    return typer.Option(metavar="PORT", min=1, max=65_535, show_default="any free one", help=meaning)


def kafka_options(
    servers: str | None, topics: Sequence[str] | None, properties: Sequence[str] | None, file: Path | None
) -> dict[str, Any]:
    """Return the options for Kafka by their names; None: not given."""
    return {"--bootstrap-servers": servers, "--topic": topics, "--kafka": properties, "--kafka-properties": file}


AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, with times in milliseconds since 1970.")]
Checkpoint: TypeAlias = Annotated[
    str, an_argument("CHECKPOINT", "The checkpointLocation: a folder, or s3://bucket/prefix.")
]
GivenServers: TypeAlias = Annotated[str | None, an_option("HOST:PORT", "Servers, separated by commas.", shown=False)]
GivenTopics: TypeAlias = Annotated[list[str] | None, an_option("NAME", "A topic; may be repeated.")]
KafkaProperties: TypeAlias = Annotated[
    list[str] | None,
    an_option(
        "KEY=VALUE",
        "A property of the Kafka client; may be repeated. Other users of this machine can see it, so keep secrets in a "
        "file.",
    ),
]
KafkaFile: TypeAlias = Annotated[
    Path | None,
    an_option(
        "FILE",
        "A properties file of the Kafka client. Properties of --kafka take precedence.",
        shown=False,
    ),
]
Master: TypeAlias = Annotated[str, an_option("URL", "The master of Spark.")]
ObjectsPath: TypeAlias = Annotated[str | None, an_option("s3://BUCKET/PREFIX", "Objects to read.", shown=False)]
Servers: TypeAlias = Annotated[str, an_option("HOST:PORT", "Servers, separated by commas.")]
SourceOptions: TypeAlias = Annotated[
    list[str] | None,
    an_option(
        "NAME=VALUE",
        "An option of the source, such as eventTime=column:at; may be repeated. Other users of this machine can see "
        "it, so keep secrets where boto3 finds them.",
    ),
]
Topics: TypeAlias = Annotated[list[str], an_option("NAME", "A topic; may be repeated.")]


_Location: TypeAlias = Annotated[
    str, an_argument("PATH", "The stateLocation of the query: a folder, or s3://bucket/prefix.")
]
_Checkpoint: TypeAlias = Annotated[
    str | None, an_option("DIR", "The checkpointLocation of the query, which shows what was read.", shown=False)
]

ledger = typer.Typer(help="Show what an S3 query has found and read.", no_args_is_help=True)


def print_answer(answer: Any) -> None:
    """Print an answer as JSON, with escapes: a key may hold a command for the terminal."""
    typer.echo(json.dumps(answer, indent=1))


@ledger.command(short_help="Show which objects a query has found and read.")
def show(location: _Location, *, checkpoint: _Checkpoint = None, option: SourceOptions = None) -> None:
    """Show which query uses the state location, which objects it has found, and how many of them it has read."""
    from tidegate.jobs.ledger import open_query_ledger

    print_answer(open_query_ledger(location, checkpoint, option).to_json())


@ledger.command(short_help="Say why an object was read, or was not.")
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


_KILLED_BY = 128  # a shell adds it to the signal in the exit code
_GOES_ON = "the same command continues from here"

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.add_typer(ledger, name="ledger")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidegate {__version__}")
        raise typer.Exit


@contextmanager
def _reports_if_stopped(sentence: str | None = None) -> Iterator[None]:
    """Exit as a shell does after SIGINT or SIGTERM."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if sentence is not None:
            typer.echo(f"tidegate: stopped; {sentence}", err=True)
        raise typer.Exit(_KILLED_BY + (interrupt.args[0] if interrupt.args else signal.SIGINT)) from None


def main() -> None:
    """Run the command line.  An error of tidegate becomes one sentence and exit code 1."""
    try:
        with needing("spark", "this command"):
            app()
    except TidegateError as error:
        sys.exit(f"tidegate: {error}")


@app.callback()
def tidegate(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Read Kafka and S3 with Spark in event-time order across partitions and objects."""


@app.command(short_help="Show how many rows Spark's own source would drop, and why.")
def preview(  # noqa: PLR0913 - parameters are options
    *,
    max_drift: Annotated[
        str | None,
        an_option(
            "DURATION",
            "How much event time one micro-batch of tidegate covers, such as '1 hour'.",
            shown="at least ten batches, of a million rows at most",
        ),
    ] = None,
    watermark_delay: Annotated[str, an_option("DURATION", "The delay of the query's watermark.")] = "10 minutes",
    window: Annotated[str, an_option("DURATION", "The length of the query's tumbling windows.")] = "5 minutes",
    option: SourceOptions = None,
    html: Annotated[Path | None, an_option("FILE", "A page to write as well.", shown=False)] = None,
    as_json: AsJson = False,
    path: ObjectsPath = None,
    bootstrap_servers: GivenServers = None,
    topic: GivenTopics = None,
    rows_per_batch: Annotated[
        int | None,
        an_option("N", "The query's maxOffsetsPerTrigger.", least=1, shown="all in one batch"),
    ] = None,
    kafka: KafkaProperties = None,
    kafka_properties: KafkaFile = None,
) -> None:
    """Show a topic, or objects of S3, in event time, and how many rows Spark's own source would drop as late.

    It suggests options to paste, needs no Spark and no consumer group, and reads a few samples of each partition.

    Give --bootstrap-servers and --topic, or --path.
    """
    from tidegate.jobs.arguments import named_source, parse_span, span_text
    from tidegate.jobs.preview.preview import show_preview

    of_kafka = kafka_options(bootstrap_servers, topic, kafka, kafka_properties) | {"--rows-per-batch": rows_per_batch}
    own = {"maxOffsetsPerTrigger": rows_per_batch, "maxDrift": span_text("--max-drift", max_drift)}
    source = named_source(path, of_kafka, own, option)
    spans = parse_span("--watermark-delay", watermark_delay), parse_span("--window", window)
    show_preview(source, *spans, as_json=as_json, html=html)


@app.command(short_help="Write the history of topics or objects to Parquet, aligned.")
def backfill(  # noqa: PLR0913 - parameters are options
    *,
    max_drift: Annotated[str, an_option("DURATION", "How much event time one micro-batch covers, such as '1 hour'.")],
    out: Annotated[Path, an_option("DIR", "The folder for the Parquet files. A run that was killed is resumed.")],
    max_out_of_orderness: Annotated[
        str, an_option("DURATION", "How far rows of one partition are out of order.")
    ] = "0 seconds",
    begin: Annotated[str | None, an_option("TIME", "Begin at this event time.", "--from", shown="earliest")] = None,
    end: Annotated[
        str | None, an_option("TIME", "End before this event time.", "--to", shown="the present end")
    ] = None,
    option: SourceOptions = None,
    master: Master = "local[*]",
    path: ObjectsPath = None,
    bootstrap_servers: GivenServers = None,
    topic: GivenTopics = None,
    kafka: KafkaProperties = None,
    kafka_properties: KafkaFile = None,
) -> None:
    """Write the history of topics, or of objects of S3, to Parquet, aligned in event time.

    You can kill it and run it again: no row is lost, and none is written twice.
    A later run of the same command adds the new rows.

    Give --bootstrap-servers and --topic, or --path.

    A TIME is ISO 8601, in UTC unless it has a zone, or milliseconds since 1970.
    """
    from tidegate.jobs.backfill import backfill_source, show_backfill

    source = backfill_source(
        out,
        max_drift=max_drift,
        max_out_of_orderness=max_out_of_orderness,
        begin=begin,
        end=end,
        options=option,
        path=path,
        of_kafka=kafka_options(bootstrap_servers, topic, kafka, kafka_properties),
    )
    with _reports_if_stopped(_GOES_ON):
        show_backfill(source, out, master)


@app.command(short_help="Copy the records of topics before Kafka deletes them.")
def archive(
    *,
    bootstrap_servers: Servers,
    topic: Topics,
    out: Annotated[
        str,
        an_option(
            "LOCATION",
            "A folder, s3://bucket/prefix, or a table: delta:..., iceberg:CATALOG.NAMESPACE.TABLE.",
        ),
    ],
    until: Annotated[
        str | None,
        an_option(
            "latest|TIME", "End at the records that are there when it begins, or before this event time.", shown="never"
        ),
    ] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Also merge small objects into large ones.")] = False,
    kafka: KafkaProperties = None,
    kafka_properties: KafkaFile = None,
    master: Master = "local[*]",
) -> None:
    """Copy the records of topics to an archive of Parquet objects, before Kafka deletes them.

    It copies what the archive lacks, every hour. You can kill it and run it again: no record is lost or doubled.

    A TIME is ISO 8601, in UTC unless it has a zone, or milliseconds since 1970.
    """
    from tidegate.jobs.archive.run import run_archive

    of_kafka = kafka_options(bootstrap_servers, topic, kafka, kafka_properties)
    with _reports_if_stopped(_GOES_ON):
        run_archive(of_kafka, out, until=until, compact=compact, master=master)


@app.command()
def conformance(
    harness: Annotated[str, an_argument("MODULE:HARNESS", "The harness, such as mypkg.testing:Harness.")],
    *,
    tier: Annotated[
        list[str] | None,
        an_option("TIER", "Check the rules of this tier: contract, spark or faults; may be repeated.", shown="all"),
    ] = None,
    rule: Annotated[list[str] | None, an_option("ID", "Check this rule; may be repeated.", shown="all")] = None,
) -> None:
    """Check a connector, or any data source of PySpark, by the rules of the conformance kit.

    The exit code is 1 if it breaks a rule.
    """
    from tidegate.jobs.conformance import check_conformance

    with _reports_if_stopped():
        conforms = check_conformance(harness, tiers=tier or [], rules=rule or [])
    if not conforms:
        raise typer.Exit(1)


@app.command(short_help="Count a skewed topic by Spark's own source and aligned.")
def demo(
    *,
    rows: Annotated[int, an_option("N", "The number of rows in the skewed topic.")] = 3_300_000,
    html: Annotated[Path, an_option("FILE", "The page to write.")] = Path("tidegate-demo.html"),
) -> None:
    """Count the rows of a skewed topic twice, unaligned and aligned, and show how many were lost."""
    from tidegate.jobs.demo.page import show_demo

    with _reports_if_stopped("no page is written"):
        show_demo(rows, html)


@app.command()
def kafka(
    topic: Annotated[list[str] | None, an_option("NAME[:PARTITIONS]", "A topic to create; may be repeated.")] = None,
    brokers: Annotated[int, an_option("N", "The number of brokers.", least=1)] = 1,
    port: Annotated[
        int | None, a_port("The port of 127.0.0.1 to listen at. Further brokers listen at the next ports.")
    ] = None,
    folder: Annotated[Path | None, an_option("DIR", "Keeps the data for the next start.", shown=False)] = None,
    add_topic: Annotated[
        list[str] | None,
        an_option(
            "NAME[:PARTITIONS]",
            "Start nothing, but add a topic to the Kafka that runs at --port, or else at 9092; may be repeated.",
        ),
    ] = None,
) -> None:
    """Run a Kafka for development until Ctrl-C."""
    from tidegate.jobs.kafka import add_topics, serve_kafka

    if add_topic:
        if topic or folder or brokers > 1:
            raise OptionError("--add-topic goes to a Kafka that runs, so of the other options only --port may be given")
        add_topics(add_topic, port=port)
        return
    serve_kafka(topic or [], brokers=brokers, port=port, folder=folder)


@app.command(short_help="Move a query from Spark's own Kafka source, or back.")
def migrate(
    checkpoint: Checkpoint,
    *,
    to: Annotated[
        str | None,
        an_option(
            "NEW_CHECKPOINT", "Write a checkpoint from which the other source continues.", shown="print startingOffsets"
        ),
    ] = None,
    back: Annotated[
        bool, typer.Option("--back", help="From tidegate_kafka to Spark's built-in source.", show_default=False)
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Move a query of Spark's built-in Kafka source to tidegate, or back.

    Stop the query first. CHECKPOINT itself is not changed. With --to, no record is lost or doubled.
    """
    from tidegate.jobs.migrate import run_migrate

    run_migrate(checkpoint, to=to, goes_back=back, as_json=as_json)


@app.command(short_help="Tell what became of every row that a query has read.")
def account(
    checkpoint: Checkpoint,
    *,
    as_json: AsJson = False,
) -> None:
    """Tell from a checkpoint what became of every row that a query has read: closed, open, late or set aside."""
    from tidegate.jobs.account.of_checkpoint import run_account

    run_account(checkpoint, as_json=as_json)


@app.command(short_help="Show how far running queries have read.")
def watch(
    *,
    once: Annotated[bool, typer.Option("--once", help="Print the table once, and not until Ctrl-C.")] = False,
    alignment_location: Annotated[
        str | None,
        an_option(
            "LOCATION",
            "Show the members of the groups that meet here, on all machines: a folder, or s3://bucket/prefix.",
            shown="your queries on this machine",
        ),
    ] = None,
) -> None:
    """Show the sources of running queries: how far they have read, and what holds them back."""
    from tidegate.jobs.watch import show_watch

    show_watch(once=once, location=alignment_location)
