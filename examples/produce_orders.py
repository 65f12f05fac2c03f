"""Writes JSON orders of 6 hours to a topic, and 1 hour to its last partition: produce_orders.py SERVERS TOPIC."""

import json
import sys
import time

from kafka import KafkaProducer
from kafka.errors import KafkaError

if len(sys.argv) != 3:
    sys.exit(__doc__)
servers, topic = sys.argv[1:]
try:
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=50, bootstrap_timeout_ms=5_000, max_block_ms=5_000)
except KafkaError:
    port = servers.rpartition(":")[2]
    sys.exit(f"no Kafka answers at {servers}; start one with: tidegate kafka --port {port} --topic {topic}:4")
try:
    *early, late = sorted(producer.partitions_for(topic))
except KafkaError:
    sys.exit(f"the Kafka at {servers} has no topic {topic!r}; add it with: tidegate kafka --add-topic {topic}:4")
now, sent = int(time.time()), 0
for second in range(now - 6 * 3600, now, 5):
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
    order = {"at": at, "country": ("DE", "FR", "PL")[second % 3], "amount": 1 + second % 500}
    for partition in [*early, late] if second >= now - 3600 else early:
        producer.send(topic, json.dumps(order).encode(), partition=partition, timestamp_ms=second * 1000)
        sent += 1
producer.close()
print(f"wrote {sent:,} orders to {topic}")
