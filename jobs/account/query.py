"""``tidegate.account``: what became of every row that a run of a query has read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tidegate.errors import OptionError
from tidegate.jobs.account.account import Account, Certainty, Figure
from tidegate.jobs.account.of_progress import account_of_run
from tidegate.sources.progress.plan import PlanFacts
from tidegate.sources.progress.query import QueryProgress, check_query
from tidegate.spark_private import checkpoint_of, plan_steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_COUNT = "count"


def account(query: StreamingQuery) -> Account:
    """Return what became of every row that this run of a query has read, running or ended.

    A row is in a window, closed or open, was dropped as late, or was set aside as a bad record.  Figures that Spark
    does not give exactly are marked as bounds, and ``missing`` says what is not known.

    Spark keeps the last 100 batches of a run (``spark.sql.streaming.numRecentProgressUpdates``).  Rows in open windows
    are counted by a Spark job over the state, if the query is one aggregation with a count.

    Raises OptionError if ``query`` is no query, or has not ended its first batch.
    """
    from pyspark.sql import SparkSession

    check_query("account", query)
    progresses = progress_of_run(query)
    if not progresses:
        raise OptionError(f"the query {query.name or query.id} has no account yet: wait for its first batch")
    found = account_of_run(progresses)
    checkpoint = checkpoint_of(query)
    if found.open.bound == "exact" or progresses[-1].operators > 1 or checkpoint is None:
        return found
    last = max((entry.number for entry in progresses if entry.ran), default=None)  # another may end meanwhile
    state = rows_in_state(SparkSession.active(), checkpoint, progresses[-1].plan, last)
    return found if state is None else account_of_run(progresses, state)


def progress_of_run(query: StreamingQuery) -> list[QueryProgress]:
    """Return the entries of a run that Spark keeps, with its first batch, and with what its plan proves."""
    from tidegate.sources.progress.batches import first_batch

    entries = [QueryProgress.parse(progress.json) for progress in query.recentProgress]
    if not entries:
        return []
    last, plan = entries[-1], None
    with suppress(Exception):  # a client of Spark Connect has no plan, and others may not be allowed to see it
        plan = PlanFacts.of(plan_steps(query), len(last.sources))
    first = first_batch(last.run_id) if entries[0].number else 0
    entries[-1] = last.with_bad_records()
    return [replace(entry, plan=plan, first=first) for entry in entries]


def rows_in_state(
    spark: SparkSession, checkpoint: str, plan: PlanFacts | None = None, batch: int | None = None
) -> Figure | None:
    """Return how many rows are in the groups of Spark's aggregation, by its count, if that is known.

    checkpoint: the checkpoint of a query with one stateful operator.
    plan: what the plan of the query proves, if it is known.  Without it, the count of windows that do not overlap is an
        estimate: it may leave out nulls, or steps may multiply rows.
    batch: after which batch; None: after the last.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    if plan is not None and not plan.counts_open:
        return None
    with suppress(PySparkException, Py4JError):  # the state of another operator, or one that has just been cleaned up
        state = spark.read.options(**{} if batch is None else {"batchId": batch}).format("statestore").load(checkpoint)
        keys, values = (state.select(f"{part}.*").columns for part in ("key", "value"))
        if plan is None and ("window" not in keys or _overlap(state.select("key.window.start", "key.window.end"))):
            return None
        counts = [f"_{place}" for place, name in enumerate(values) if name == _COUNT]
        numbered = state.select("value.*").toDF(*(f"_{place}" for place in range(len(values))))
        sums = numbered.agg(*map(f.sum, counts)).first() if counts else None
        if sums is not None:
            bound: Certainty = "about" if plan is None else "exact" if plan.counts_all else "at least"
            return Figure(max(rows or 0 for rows in sums), bound)
    return None


def _overlap(windows: DataFrame) -> bool:
    """Return whether a row may be in two of the windows."""
    in_order = sorted((row[0], row[1]) for row in windows.distinct().collect())
    return any(begin < end for (_, end), (begin, _) in pairwise(in_order))
