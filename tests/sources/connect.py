"""A query through Spark Connect, whose client has no Java: prints the rows that were read, as JSON.

python -m tests.sources.connect BOOTSTRAP_SERVERS TOPIC OBJECTS FOLDER

OBJECTS has the options of an S3 source as JSON.
"""

import fcntl
import json
import os
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

import tidegate
from tidegate import WatermarkStrategy


def await_turn():
    """Wait until no other process of this user has a local server, whose port is fixed."""
    path = Path(tempfile.gettempdir(), f"tidegate-connect-{os.getuid()}.lock")
    fcntl.flock(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), fcntl.LOCK_EX)  # stays open until the process ends


def refusal_of(call, *arguments, **named):
    """Return the sentence of the error for what needs a classic session."""
    try:
        return str(call(*arguments, **named))
    except tidegate.OptionError as error:
        return str(error)


def main():
    servers, topic, objects, folder = sys.argv[1:]
    await_turn()
    spark = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    tidegate.register(spark)
    tidegate.on_progress(spark, lambda *_: None)
    by_name = spark.read.format("tidegate_kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(max_drift=timedelta(hours=1))
    source = tidegate.KafkaSource(
        bootstrap_servers=servers,
        subscribe=[topic],
        starting_offsets="earliest",
        watermarks=strategy,
        target_batch_duration=timedelta(seconds=1),
    )
    query = (
        source.read_stream(spark)
        .select("partition", "offset")
        .writeStream.format("parquet")
        .option("path", f"{folder}/out")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    rows = sorted((row["partition"], row["offset"]) for row in spark.read.parquet(f"{folder}/out").collect())
    (progress,) = tidegate.progress(query)
    texts = spark.readStream.format("tidegate_s3").options(**json.loads(objects)).load().select("value")
    writer = texts.writeStream.format("parquet").option("path", f"{folder}/texts")
    copied = writer.option("checkpointLocation", f"{folder}/of_texts").trigger(availableNow=True).start()
    assert copied.awaitTermination(120)
    refused = [
        refusal_of(tidegate.windowed, source.read_stream(spark), "partition", "timestamp"),
        refusal_of(tidegate.archive, spark, bootstrap_servers=servers, topics=topic, out=f"{folder}/lake"),
    ]
    batch = by_name.load().count()
    typed = by_name.options(valueFormat="json", valueSchema="n INT", mode="PERMISSIVE", where="offset < 10").load()
    print(
        json.dumps(
            {
                "batch": batch,
                "typed": [typed.count(), typed.schema["value"].dataType.simpleString()],
                "rows": rows,
                "texts": sorted(row["value"] for row in spark.read.parquet(f"{folder}/texts").collect()),
                "batches": len(query.recentProgress),
                "watermark": progress.watermark.isoformat(),
                "refused": refused,
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main()
