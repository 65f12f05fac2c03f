"""The command ``tidegate migrate``: reads its arguments and prints its answer."""

from __future__ import annotations

import json

import typer

from tidegate.jobs.migrate.kafka_query import KafkaQuery
from tidegate.jobs.migrate.new_checkpoint import make_checkpoint
from tidegate.jobs.spark_checkpoint import open_checkpoint


def run_migrate(checkpoint: str, *, to: str | None, goes_back: bool, as_json: bool) -> None:
    """Print where the sources of a query go on, or write a checkpoint from which they go on.

    checkpoint: the checkpoint of the query: a path or ``s3://bucket/prefix``.
    to: the new checkpoint, in the same form, instead of printing the starting offsets.
    goes_back: from tidegate to Spark's built-in source.

    Raises OptionError, one sentence, if ``checkpoint`` is no such checkpoint, or if ``to`` is not empty.
    """
    query = KafkaQuery(open_checkpoint(checkpoint, "CHECKPOINT"), goes_back=goes_back)
    standings = query.standings()
    if to is not None:
        make_checkpoint(query, open_checkpoint(to, "--to"))
    if as_json:
        batches = {"lastCommittedBatch": query.last, "uncommittedBatch": query.uncommitted}
        found = [{"source": name, **batches, "startingOffsets": offset} for name, offset in standings.items()]
        typer.echo(json.dumps(found))
        return
    where = "the query began" if query.last is None else f"batch {query.last} ended"
    for name, offset in standings.items():
        with_offsets = f", with startingOffsets\n{json.dumps(offset, separators=(',', ':'))}" if to is None else ""
        typer.echo(f"source {name} ({', '.join(offset)}) goes on where {where}{with_offsets}")
    if to is not None:
        typer.echo(
            f"start the query with the format {'' if goes_back else 'tidegate_'}kafka and the checkpointLocation {to}"
        )
    if query.uncommitted is not None:
        typer.echo(_uncommitted(query.uncommitted, keeps_numbers=to is not None), err=True)
    if to is None:
        typer.echo(
            "a new checkpoint has no state and counts its batches from 0: a sink that knows batches by their number, "
            "such as files or Delta, would take new batches for old ones; --to keeps state and numbers",
            err=True,
        )


def _uncommitted(number: int, *, keeps_numbers: bool) -> str:
    if keeps_numbers:
        return f"batch {number} is planned but not written: it is repeated with the same records"
    return (
        f"batch {number} is planned but not written: its records are read again, and those that are already in the "
        "sink come twice; --to repeats the batch under its number"
    )
