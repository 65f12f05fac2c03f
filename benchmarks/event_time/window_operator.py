"""Measures the window operator by rows and keys, without Spark: CPU seconds, which a busy machine changes little.

The windows are tumbling windows of a minute with a count and a sum, in batches of four windows.  The work is that of a
Python worker for the rows of a key and batch, with the state in memory.

    python -m benchmarks.event_time.window_operator [--keys 250 1000 4000] [--rows 1 10 20 40] [--batches 5]
"""

from __future__ import annotations

import argparse
import time
from datetime import timedelta

import numpy as np
import pyarrow as pa

from benchmarks.measuring.batches import print_table
from tidegate.windows import Aggregate, SqlAggregates, TumblingEventTimeWindows, WindowOperator
from tidegate.windows.state.store import MemoryKeyStore

MINUTE_MS = 60_000
WINDOWS = 4  # of a batch


def cpu_s(keys: int, rows: int, batches: int) -> float:
    """Return the CPU seconds for a number of keys, with a number of rows in each of their windows."""
    aggregate = Aggregate(SqlAggregates(rows="count(*)", total="sum(n)"))
    operator = WindowOperator(
        TumblingEventTimeWindows.of(timedelta(milliseconds=MINUTE_MS)), aggregate, allowed_lateness=timedelta(minutes=1)
    )
    stores = [MemoryKeyStore() for _ in range(keys)]
    times = np.arange(WINDOWS * rows) * MINUTE_MS // rows
    numbers = pa.table({"n": np.arange(WINDOWS * rows)})
    fired, before = 0, time.process_time()
    for batch in range(1, batches + 1):
        begin_ms = batch * WINDOWS * MINUTE_MS
        for key, store in enumerate(stores):
            run = operator.open(key, store, 0)
            run.advance_watermark(begin_ms - 1)
            run.process_elements(numbers, times + begin_ms)
            fired += len(run.results)
            run.close()
    if fired != keys * WINDOWS * (batches - 1):
        raise AssertionError(f"{fired} windows have fired")
    return time.process_time() - before


def row(keys: int, rows: int, batches: int) -> tuple[str, ...]:
    """Return a line of the table."""
    spent, windows = cpu_s(keys, rows, batches), keys * WINDOWS * batches
    return f"{keys:,}", str(rows), f"{spent:.2f}", f"{spent / windows * 1e6:.1f}", f"{spent / windows / rows * 1e6:.2f}"


def main() -> None:
    """Print a table: the keys with one row a window, then the rows with the least keys."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, nargs="+", default=[250, 1_000, 4_000])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 10, 20, 40], help="of a key in a window")
    parser.add_argument("--batches", type=int, default=5)
    arguments = parser.parse_args()
    cases = [(keys, arguments.rows[0]) for keys in arguments.keys]
    cases += [(arguments.keys[0], rows) for rows in arguments.rows[1:]]
    cpu_s(*cases[0], arguments.batches)  # to warm up
    columns = ("keys", "rows of a key and window", "CPU s", "us a key and window", "us a row")
    print_table(columns, [row(keys, rows, arguments.batches) for keys, rows in cases])


if __name__ == "__main__":
    main()
