"""Writes the page of a query to a file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import OptionError
from tidegate.jobs.account.query import progress_of_run
from tidegate.jobs.files import writable
from tidegate.jobs.pages.query import query_page
from tidegate.sources.progress.query import check_query

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def report(query: StreamingQuery, path: str | PathLike[str]) -> Path:
    """Write an HTML page about a query with tidegate sources, running or ended, and return its absolute path.

    The page shows for each batch the event time that splits reached, the bound, the watermarks, its rows and its
    seconds.  The file needs no other file and no network.  Spark keeps the last 100 batches of a run
    (``spark.sql.streaming.numRecentProgressUpdates``); the page says if the beginning is missing.

    path: the path of the file, which is overwritten; missing folders are created.

    Raises OptionError if no tidegate source of the query has planned a batch yet, if the file cannot be written, or if
    ``query`` is no query.
    """
    check_query("report", query)
    ended = not query.isActive
    page = query_page(progress_of_run(query), ended=ended)
    if page is None:
        raise OptionError(
            f"the query {query.name or query.id} has no progress of a tidegate source: wait for its first batch"
        )
    file = writable("path", Path(path).absolute())
    file.write_text(page, encoding="utf-8")
    return file
