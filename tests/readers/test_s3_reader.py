"""The S3 connector's reader: what many small objects hold comes in few batches, in their order."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.alignment.splits import SplitRange
from tidegate.errors import CorruptDataError, ObjectGoneError
from tidegate.readers.contract import ReadTask
from tidegate.readers.object_store import ObjectStore
from tidegate.readers.objects import Chunk, ObjectFormat
from tidegate.readers.s3_config import S3ConnectionConfig
from tidegate.readers.s3_reader import S3SplitReader

ENOUGH = 1 << 20
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
EMPTY = pa.schema([])


class Made(ObjectFormat):
    """Objects by their key: a list of batches, or an error after them."""

    def __init__(self, objects):
        self.objects = objects

    def infer(self, samples):
        raise NotImplementedError

    def survey(self, found, column):
        raise NotImplementedError

    def read(self, chunk, schema):
        for each in self.objects[chunk.key]:
            if isinstance(each, Exception):
                raise each
            yield each


def read(objects, schema=SCHEMA, **options):
    store = ObjectStore(S3ConnectionConfig(), "bucket")
    # Empty ones, so that there is nothing to fetch ahead.
    chunks = tuple(Chunk(key, 0, "", 0, 0, 0, 0, None, None) for key in objects)
    middle = len(chunks) // 2
    task = ReadTask(
        (SplitRange("a", 0, middle), SplitRange("b", middle, len(chunks))), (chunks[:middle], chunks[middle:])
    )
    return [*S3SplitReader(Made(objects), store, schema, **options).read(task)]


def batch(begin, rows, width):
    return pa.record_batch([pa.array(range(begin, begin + rows), pa.int64()), ["x" * width] * rows], schema=SCHEMA)


@given(st.lists(st.lists(st.tuples(st.integers(1, 400), st.sampled_from([1, 100, 6_000])), max_size=4), max_size=8))
def test_the_rows_stay_in_order_and_all_batches_but_the_last_have_enough_bytes(shapes):
    objects, count = {}, 0
    for number, shape in enumerate(shapes):
        objects[str(number)] = []
        for rows, width in shape:
            objects[str(number)].append(batch(count, rows, width))
            count += rows
    batches = read(objects)
    assert [n for each in batches for n in each.column(0).to_pylist()] == list(range(count))
    assert all(each.nbytes > ENOUGH * 0.9 for each in batches[:-1])
    assert all(each.schema.equals(SCHEMA) for each in batches)


def test_a_batch_with_enough_bytes_is_not_copied():
    whole = batch(0, 300, 6_000)
    assert [each.column(1).buffers()[2].address for each in read({"a": [whole]})] == [
        whole.column(1).buffers()[2].address
    ]


def test_rows_without_columns_keep_their_number():
    rows = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    assert sum(each.num_rows for each in read({"a": [rows], "b": [rows]}, EMPTY)) == 6


def test_what_precedes_an_error_that_is_skipped_is_not_lost():
    objects = {
        "a": [batch(0, 3, 1), CorruptDataError("broken")],
        "b": [ObjectGoneError("gone")],
        "c": [batch(3, 3, 1)],
    }
    [found] = read(objects, ignore_missing=True, ignore_corrupt=True)
    assert found.column(0).to_pylist() == list(range(6))
