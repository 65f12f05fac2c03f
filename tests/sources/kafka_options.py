"""Options that make a Kafka source, and a secret that must appear nowhere."""

from tidegate import KafkaSource

SECRET = "hunter2"  # noqa: S105 - no real one
NEEDED = {"kafka.bootstrap.servers": "here:9092", "subscribe": "orders"}


def of(**options):
    """Return the source of Spark's options; a name with two underscores stands for a dot."""
    return KafkaSource.from_options({**NEEDED, **{n.replace("__", "."): v for n, v in options.items()}})
