"""Topics of which an archive holds the older records, and Kafka only the newer ones."""

from tests.support.streams import kafka_source
from tidegate.enumerators.archive.records import directories_of
from tidegate.jobs.archive.pieces import copy, plan_archive
from tidegate.readers.archive.parquet import ParquetArchive


def committed_source(kafka, topic, **fields):
    """Return a source of all that an archive keeps."""
    return kafka_source(kafka, topic, include_headers=True, kafka={"isolation.level": "read_committed"}, **fields)


def archive_topic(kafka, topic, place):
    """Archive what Kafka holds now."""
    for piece in plan_archive(committed_source(kafka, topic, bad_event_time="ignore"), place).pieces:
        copy(piece)


def list_partition(place, topic, partition):
    """Return the directory of a partition."""
    return directories_of(ParquetArchive(place), [(topic, partition)])[topic, partition]


def delete_before(kafka, topic, offset, partition=0):
    """Let the retention of Kafka reach an offset."""
    kafka.delete_before(topic, {partition: offset})
