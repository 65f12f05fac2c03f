"""The parts that drivers which tests kill have in common, and a driver with queries of several others.

python -m tests.sources.killable MASTER SETTINGS QUERIES

SETTINGS: Spark's, as JSON.  QUERIES: as JSON, a list of a module, the folder of its output, and the arguments of its
``start`` by name.  A Spark for each of them would take far longer.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

MOST_IN_VAIN = 10  # runs in a row that commit nothing; Spark finds out one by one that its idle workers are gone


def driver_session(master, settings=None):
    """Return a session without pages, on this host; settings: Spark's, by name."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # a cluster's workers are not told otherwise
    return (
        SparkSession.builder.master(master)
        .config(map=settings or {})
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def start_to_parquet(rows, out, **trigger):
    """Start to write rows to ``out/data``, with the checkpoint beside it, and return the query."""
    return (
        rows.writeStream.format("parquet")
        .option("path", f"{out}/data")
        .option("checkpointLocation", f"{out}/checkpoint")
        .trigger(**trigger)
        .start()
    )


def await_end(query, out):
    """Wait until a query ends, and leave in ``out/state.json`` how many rows of state it had after each batch."""
    query.awaitTermination()
    state = [sum(operator.numRowsTotal for operator in batch.stateOperators) for batch in query.recentProgress]
    Path(out, "state.json").write_text(json.dumps(state))


def run_again_and_again(run, out):
    """Run a query until it ends well, as a supervisor does: what is killed below it ends the query, not the driver."""
    in_vain = 0
    while True:
        before = commits(out)
        try:
            return run()
        except StreamingQueryException as error:
            print(f"the query is run again after: {str(error)[:500]}", flush=True)
            in_vain = in_vain + 1 if commits(out) == before else 0
            if in_vain == MOST_IN_VAIN:
                raise


def commits(out):
    """Return how many batches were committed.  Spark deletes the notes of old ones, so their numbers tell it."""
    return max((int(file.name) + 1 for file in Path(out, "checkpoint", "commits").glob("[0-9]*")), default=0)


def main(master, settings, queries):
    spark = driver_session(master, json.loads(settings))
    named = json.loads(queries)
    for query, out in [(import_module(name).start(spark, out=out, **given), out) for name, out, given in named]:
        await_end(query, out)
    # As many programs do, it ends without stopping its session.


if __name__ == "__main__":
    main(*sys.argv[1:])
