"""Streams for ever, with skew to play with: live.py BOOTSTRAP_SERVERS TOPIC.

Every partition gets an order for each tenth of a second of event time.  In the last one, event time passes at half the
speed, so it falls behind.  Type another speed and Enter: 5 catches up, 0 stops.  ``tidegate watch`` in a second
terminal shows who holds back whom.  Ctrl-D or Ctrl-C ends it.

Each window of two seconds that closes has 20 orders of every partition, however far the last one is behind.  At speed 0
the others wait for half a minute; then it is idle, and its windows close without it.
"""

import sys
import threading
import time
from tempfile import TemporaryDirectory

from kafka import KafkaProducer
from kafka.errors import KafkaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

import tidegate

STEP_MS, WINDOW_MS = 100, 2_000

if len(sys.argv) != 3:
    sys.exit(__doc__)
servers, topic = sys.argv[1:]
try:
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=20, bootstrap_timeout_ms=5_000, max_block_ms=5_000)
    *others, last = sorted(producer.partitions_for(topic))
except KafkaError:
    sys.exit(f"no Kafka with a topic {topic!r} answers at {servers}; add it with: tidegate kafka --add-topic {topic}:4")
begin = (int(time.time() * 1000) // WINDOW_MS + 1) * WINDOW_MS
speed, ended = 0.5, threading.Event()
written = dict.fromkeys([*others, last], begin)


def order(partition: int) -> None:
    """Write the next order of a partition."""
    producer.send(topic, b"order", partition=partition, timestamp_ms=written[partition])
    written[partition] += STEP_MS


def write() -> None:
    """Write orders up to the present, and in the last partition up to where its event time has come."""
    reached, before = float(begin), begin
    while not ended.wait(STEP_MS / 1000):
        now = int(time.time() * 1000)
        reached = min(now, reached + speed * max(0, now - before))
        before = max(now, begin)
        for partition in written:
            while written[partition] <= (reached if partition == last else now):
                order(partition)


def show(closed: DataFrame, _: int) -> None:
    """Print the windows that a batch closes, and which partition holds back the others."""
    rows, holds = closed.orderBy("start").collect(), ""
    for source in tidegate.progress(query):
        behind = source.event_time_lag.total_seconds()
        holds = f"; {source.held_by} holds back the others, {behind:.0f} s are unread" if source.held_by else ""
    for row in rows:
        print(f"{row.start:%H:%M:%S}  {row.orders} orders{holds}", flush=True)


conf = {**tidegate.session_conf(), "spark.sql.shuffle.partitions": 2}
# Spark matches the error of a foreachBatch that is stopped with a regular expression that recurses for each character.
conf["spark.driver.extraJavaOptions"] = "-Xss32m"
spark = SparkSession.builder.config(map=conf).getOrCreate()
tidegate.register(spark)
rows = spark.readStream.format("tidegate_kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
rows = rows.option("startingTimestamp", begin).option("startingOffsetsByTimestampStrategy", "latest")
orders = rows.option("maxDrift", "5 seconds").option("idleTimeout", "30 seconds").load()
counts = orders.withWatermark("timestamp", "6 seconds").groupBy(window("timestamp", f"{WINDOW_MS} milliseconds"))
closed = counts.agg({"*": "count"}).toDF("window", "orders").select("window.start", "orders")
for partition in written:
    order(partition)
producer.flush()  # a partition holds back the others from its first order on
with TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:  # a task that was killed may still write there
    stream = closed.writeStream.queryName("live").option("checkpointLocation", checkpoint).foreachBatch(show)
    query = stream.trigger(processingTime="1 second").start()
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for line in sys.stdin:
            if line.strip().replace(".", "", 1).isdecimal():
                speed = float(line)
            else:
                print("type a speed for the last partition, such as 0, 0.5, 1 or 5")
    except KeyboardInterrupt:
        pass
    finally:
        ended.set()
        writer.join()
        producer.close()
        query.stop()
