"""Counts lost rows of small objects that were uploaded in another order than that of their event times.

JSON objects hold 48 hours.  Each is in the folder of its minute, with a random name and a random time of modification.
The same windowed count reads them twice.  Spark's own file source reads the folder in the order of modification times.
tidegate reads an S3 endpoint over the folder, by the times in paths.

    python -m benchmarks.s3.scrambled_objects [--objects 20000]   # 200000 in the table

Rows that are neither counted nor in a window that is still open at the end are lost; the program fails if
tidegate loses one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from benchmarks.measuring.batches import Measured, print_table, run_to_end
from benchmarks.measuring.peers import session
from tidegate import S3Source, WatermarkStrategy
from tidegate.servers import S3Server

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
HOURS = 48
ROWS = 5
BATCHES = 24
SCHEMA = "id long, at timestamp"
DISORDER = timedelta(seconds=1)
DELAY = "61 seconds"  # the disorder, and the span of the widest chunk
BUCKET = "events"


def lay_down(folder: Path, objects: int, dice: random.Random) -> None:
    """Write the objects."""
    now = time.time()
    step = timedelta(hours=HOURS) / (objects * ROWS)
    for number in range(objects):
        times = [BEGIN + step * (number * ROWS + row) for row in range(ROWS)]
        at = folder / f"{times[0]:dt=%Y-%m-%d/hour=%H/minute=%M}"
        at.mkdir(parents=True, exist_ok=True)
        path = at / f"{dice.getrandbits(64):016x}.json"
        times = [t if t.minute == times[0].minute else times[0] for t in times]  # of the folder's minute
        path.write_text(
            "".join(
                json.dumps({"id": number * ROWS + row, "at": t.isoformat(timespec="milliseconds")}) + "\n"
                for row, t in enumerate(times)
            )
        )
        modified = now - dice.uniform(60, 48 * 3600)
        os.utime(path, (modified, modified))


def count(rows: DataFrame, checkpoint: Path) -> tuple[Measured, int]:
    """Count by windows of 5 minutes, in append mode; return how many rows were kept."""
    spark = rows.sparkSession
    counts = rows.withWatermark("at", DELAY).groupBy(f.window("at", "5 minutes")).count()
    run = run_to_end(counts.writeStream.format("memory").queryName("counts").outputMode("append"), checkpoint)
    counted = spark.table("counts").agg(f.sum("count")).first()
    waiting = spark.read.format("statestore").load(str(checkpoint)).agg(f.sum("value.count")).first()
    return run, sum((row and row[0]) or 0 for row in (counted, waiting))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--objects", type=int, default=20_000)
    objects = parser.parse_args().objects
    with S3Server() as server, tempfile.TemporaryDirectory() as folder:
        data = server.folder / BUCKET / "in"
        data.mkdir(parents=True)
        lay_down(data, objects, random.Random(0))
        spark = session()
        ours = S3Source(
            path=f"s3://{BUCKET}/in",
            file_format="json",
            columns=pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))]),
            event_time="path:dt={yyyy-MM-dd}/hour={HH}/minute={mm}",
            state_location=f"{folder}/state",
            endpoint=server.endpoint,
            region=server.region,
            access_key=server.access_key,
            secret_key=server.secret_key,
            watermarks=WatermarkStrategy.for_bounded_out_of_orderness(DISORDER).with_watermark_alignment(
                max_drift=timedelta(hours=HOURS / BATCHES)
            ),
        )
        files = spark.readStream.schema(SCHEMA).option("recursiveFileLookup", "true")
        ways = {
            "Spark's file source": files.option("maxFilesPerTrigger", objects // BATCHES).json(str(data)),
            "tidegate": ours.read_stream(spark),
        }
        rows = []
        for number, (name, frame) in enumerate(ways.items()):
            run, kept = count(frame.select("id", "at"), Path(folder, str(number)))
            lost = objects * ROWS - kept
            offset = max(len(json.dumps(p["sources"][0]["endOffset"])) for p in run.progress)
            rows.append(
                [name, f"{objects * ROWS:,}", f"{lost:,}", str(run.batches), f"{run.seconds:.1f} s", f"{offset:,}"]
            )
        spark.stop()
    print(f"{objects:,} objects")
    print_table(["", "rows", "lost", "batches with rows", "time", "characters of the largest offset"], rows)
    if lost:
        raise SystemExit(f"tidegate lost {lost:,} rows")


if __name__ == "__main__":
    main()
