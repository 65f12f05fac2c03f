"""A driver that tests kill: it copies a topic to Parquet, and can be started again over its checkpoint.

python -m tests.sources.driver SERVERS TOPIC OUT [MASTER [ARCHIVE]]
"""

import sys
from datetime import timedelta

from tests.sources.killable import await_end, driver_session, run_again_and_again, start_to_parquet
from tidegate import KafkaSource, WatermarkStrategy


def start(spark, servers, topic, out, archive=None):
    source = KafkaSource(
        bootstrap_servers=servers,
        subscribe=[topic],
        starting_offsets="earliest",
        max_offsets_per_trigger=2_000,
        archive=archive,
        bad_records_path=f"{out}/bad",
        watermarks=WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1)),
    )
    return start_to_parquet(source.read_stream(spark), out, availableNow=True)


def main(servers, topic, out, master="local[2]", archive=None):
    spark = driver_session(master)
    run_again_and_again(lambda: await_end(start(spark, servers, topic, out, archive), out), out)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
