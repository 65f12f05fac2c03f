"""A task passes rows on before they fill its memory."""

import pyarrow as pa

from tidegate.windows.spark.buckets import HASH, _packer


def batch(size):
    return pa.record_batch({HASH: pa.array([0, 1], pa.int32()), "text": pa.array(["x" * size] * 2)})


def test_wide_rows_are_handed_on_before_they_fill_the_memory():
    taken = []
    packer = _packer(2)(taken.append(n) or batch(20 << 20) for n in range(4))
    next(packer)
    assert len(taken) == 2  # 80 MiB
    assert len(list(packer)) == 1


def test_small_batches_travel_together():
    assert len(list(_packer(2)(batch(10) for _ in range(4)))) == 1
