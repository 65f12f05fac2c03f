"""The parts that killed drivers have in common, and a driver that runs the queries of several drivers.

python -m tests.sources.killable MASTER SETTINGS QUERIES

SETTINGS: Spark's settings as JSON.  QUERIES: a list as JSON; each query is a module with a function ``start``, or
MODULE:FUNCTION, the folder of its output, and the arguments of the function by name.  A Spark for each query would
take far longer.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from importlib import import_module
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

MOST_IN_VAIN = 10  # runs in a row that commit nothing; Spark finds out one by one that its idle workers are gone


def driver_session(master, settings):
    """Return a session without pages, on this host; settings: Spark's settings by name."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers of a cluster learn it only from here
    return (
        SparkSession.builder.master(master)
        .config(map=settings)
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
    """Wait until a query ends, and write the number of its state rows after each batch to ``out/state.json``."""
    query.awaitTermination()
    state = [sum(operator.numRowsTotal for operator in batch.stateOperators) for batch in query.recentProgress]
    Path(out, "state.json").write_text(json.dumps(state))


def run_again_and_again(run, out):
    """Run a query until it ends well, as a supervisor does: a kill below the driver ends the query, not the driver."""
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
    """Return how many batches were committed, by the greatest number: Spark deletes the files of old batches."""
    return max((int(file.name) + 1 for file in Path(out, "checkpoint", "commits").glob("[0-9]*")), default=0)


def main(master, settings, queries):
    spark = driver_session(master, json.loads(settings))

    def run(named, out, given):
        module, _, function = named.partition(":")
        await_end(getattr(import_module(module), function or "start")(spark, out=out, **given), out)

    named = json.loads(queries)
    pool = ThreadPoolExecutor(len(named))
    runs = [pool.submit(run_again_and_again, partial(run, module, out, given), out) for module, out, given in named]
    try:
        for ended in as_completed(runs):
            ended.result()
    finally:
        for query in spark.streams.active:
            query.stop()
    # Like many programs, it ends without stopping its session.


if __name__ == "__main__":
    main(*sys.argv[1:])
