"""Measures the memory for cutting and reading one large Parquet object.

    python -m benchmarks.s3.large_object [--gigabytes 5] [--rows-per-group 1048576]

The object is cut as the planner cuts it.  Two processes read its chunks, as two tasks at a time would.
The memory of a process is its peak, less the memory that it held before.  The program fails if a row is
missing, or if a process takes more than 512 MiB.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring.batches import size
from benchmarks.s3.throughput import table
from tidegate.alignment.splits import SplitRange
from tidegate.readers.contract import ReadTask
from tidegate.readers.formats.parquet.format import ParquetFormat
from tidegate.readers.objects.values import Chunk
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.reader import S3SplitReader
from tidegate.readers.s3.store import ObjectStore
from tidegate.servers import S3Server

BUCKET, KEY = "large", "events.parquet"
MOST_BYTES = 512 << 20
TASKS = 2


def write(path: Path, total_bytes: int, rows_per_group: int) -> tuple[int, pa.Schema]:
    """Write an object of about ``total_bytes``, and return its rows and columns."""
    part = table(1 << 18, 1)
    rows = 0
    with pq.ParquetWriter(path, part.schema, compression="none") as writer:
        waiting: list[pa.Table] = []
        while path.stat().st_size < total_bytes:
            waiting.append(part)
            if sum(batch.num_rows for batch in waiting) >= rows_per_group:
                group = pa.concat_tables(waiting)
                writer.write_table(group, row_group_size=rows_per_group)
                rows += group.num_rows
                waiting = []
    return rows, part.schema


def read(config: S3ConnectionConfig, schema: pa.Schema, chunks: Sequence[Chunk]) -> tuple[int, int]:
    """Read chunks as a task does, and return rows and the bytes of memory that it took."""
    store = ObjectStore(config, BUCKET)
    reader = S3SplitReader(ParquetFormat(store), store, schema)
    before = forget_peak()
    task = ReadTask((SplitRange("1", 0, len(chunks)),), (tuple(chunks),))
    rows = sum(batch.num_rows for batch in reader.read(task))
    return rows, peak_bytes() - before


def forget_peak() -> int:
    """Let Linux count the peak from now on, and return the present memory of this process."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def peak_bytes() -> int:
    """Return the peak of this process's memory, as Linux counts it; ``getrusage`` would include the parent's."""
    (line,) = (text for text in Path("/proc/self/status").read_text().splitlines() if text.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Print the memory and the times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--rows-per-group", type=int, default=1 << 20)
    arguments = parser.parse_args()
    with S3Server() as server:
        path = server.create_bucket(BUCKET) / KEY
        rows, schema = write(path, int(arguments.gigabytes * 10**9), arguments.rows_per_group)
        config = S3ConnectionConfig(server.endpoint, server.region, server.access_key, server.secret_key)
        obj = ObjectStore(config, BUCKET).find(KEY)
        if obj is None:
            raise SystemExit(f"the endpoint does not show {path}")
        begun, before = time.perf_counter(), forget_peak()
        surveys = ParquetFormat(ObjectStore(config, BUCKET)).survey(obj, "at")
        cutting_s, cutting_bytes = time.perf_counter() - begun, peak_bytes() - before
        chunks = [
            Chunk(*obj, survey.start, survey.end, survey.rows, *(survey.times or (None, None))) for survey in surveys
        ]
        shares = [chunks[number::TASKS] for number in range(TASKS)]
        with ProcessPoolExecutor(TASKS, get_context("spawn")) as pool:
            taken = [*pool.map(read, [config] * TASKS, [schema] * TASKS, shares)]
        seconds = time.perf_counter() - begun - cutting_s
        written_bytes = path.stat().st_size
    print(
        f"{written_bytes / 1e9:.2f} GB, {rows:,} rows, {len(chunks)} chunks; cut in {cutting_s:.2f} s with "
        f"{size(cutting_bytes)}; read in {seconds:.0f} s with {size(max(used for _, used in taken))} a task"
    )
    if sum(read for read, _ in taken) != rows:
        raise SystemExit(f"of {rows:,} rows {sum(read for read, _ in taken):,} were read")
    if max(used for _, used in taken) > MOST_BYTES:
        raise SystemExit(f"a task takes more than {size(MOST_BYTES)}")


if __name__ == "__main__":
    main()
