"""Record batches that are written, compared with those of kafka-python."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.kafka.lab import Record, encode
from tidegate.readers.kafka.records.encoder import NewRecord, encode_batch

texts = st.none() | st.binary(max_size=300)
records = st.builds(
    Record,
    st.integers(0, 2**42),
    texts,
    texts,
    st.lists(st.tuples(st.text(max_size=5), texts), max_size=3),
)


@given(st.lists(records, min_size=1, max_size=200))
@example([Record(5, b"", b"x" * 70_000, [("é", None)]), Record(3, None, None)])
def test_a_batch_is_the_one_that_kafka_python_makes(given_records):
    written = encode_batch([NewRecord(r.timestamp, r.key, r.value, r.headers) for r in given_records])
    # The broker writes the leader epoch.
    assert written[:12] + bytes(4) + written[16:] == encode(given_records)
