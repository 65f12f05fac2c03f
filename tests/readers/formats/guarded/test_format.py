"""Formats in decoder processes: an object that ends, fills or occupies a process is an error; all others are read."""

from __future__ import annotations

import os
import pickle
import signal
from unittest import mock

import pyarrow as pa
import pytest

from tests.readers.formats.files import parquet
from tests.readers.formats.guarded.fatal_format import SCHEMA
from tests.readers.formats.guarded.objects import MOST_BYTES, guarded, lines_of, objects, processes_of
from tests.support.objects.faulty_server import faulty, through
from tests.support.objects.lab import GONE, InMemory, chunk, read
from tests.support.objects.stored import put
from tidegate.errors import ConnectorError, CorruptDataError, ObjectGoneError, OptionError
from tidegate.readers.formats.guarded import format as guarded_format
from tidegate.readers.formats.guarded import process as decoder_process
from tidegate.readers.formats.guarded.format import GuardedFormat
from tidegate.readers.formats.parquet.format import ParquetFormat
from tidegate.readers.objects.values import SMALL_BYTES, TAIL_BYTES, ChunkSurvey
from tidegate.readers.s3.store import ObjectStore

pytestmark = pytest.mark.slow  # the tests start decoder processes, and wait for their end


def test_an_object_that_ends_the_process_is_corrupt_however_it_is_looked_at():
    store = objects(x="a\nfault\nb")
    made, obj = guarded(store), store.listed("x")
    sentence = r"^the object s3://data/x ends Arrow's reader \(signal SIGSEGV\)$"
    for look in (lambda: made.infer([obj]), lambda: made.survey(obj, "at")):
        with pytest.raises(CorruptDataError, match=sentence):
            look()
    batches = made.read(chunk(store.listed("x")), SCHEMA)
    assert lines_of([next(batches)]) == ["a"]
    with pytest.raises(CorruptDataError, match=sentence):
        next(batches)
    store.contents["x"] = b"a\nb"
    assert lines_of(made.read(chunk(store.listed("x")), SCHEMA)) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "cause"),
    [("signal SIGABRT", "signal SIGABRT"), ("exit 3", "exit code 3"), ("exit 1", "exit code 1")],
)
def test_the_error_says_how_the_process_ended(line, cause):
    store = objects(x=line)
    with pytest.raises(CorruptDataError, match=rf"ends Arrow's reader \({cause}\)$"):
        guarded(store).survey(store.listed("x"), "at")


def test_what_an_earlier_object_did_to_a_process_is_not_blamed_on_a_later_one():
    store = objects(harmful="harm", sound="1\nsuffer\n2")
    made = guarded(store)
    assert lines_of(made.read(chunk(store.listed("harmful")), SCHEMA)) == ["harm"]
    # The first row comes from the process that has ended, and only once.
    assert lines_of(made.read(chunk(store.listed("sound")), SCHEMA)) == ["1", "suffer", "2"]
    made.survey(store.listed("harmful"), "at")
    assert made.survey(store.listed("sound"), "at") == [ChunkSurvey(0, 10, 3, None)]


def test_a_process_that_is_killed_is_no_fault_of_the_object():
    store = objects(x="signal SIGKILL", y="1")
    with pytest.raises(ConnectorError, match=r"^the process that decoded s3://data/x was killed \(signal SIGKILL\)$"):
        guarded(store).survey(store.listed("x"), "at")
    [process_id] = processes_of(store, "y")
    os.kill(process_id, signal.SIGKILL)  # the process waits for a call
    assert lines_of(guarded(store).read(chunk(store.listed("y")), SCHEMA)) == ["1"]


@pytest.mark.parametrize("line", [f"take {400 << 20}", f"reserve {1 << 40}"])
def test_an_object_that_takes_too_much_memory_is_reported_by_the_option(line, monkeypatch):
    monkeypatch.setattr(guarded_format, "OWN_BYTES", 64 << 20)
    store = objects(x=f"{line}\nsleep 60")
    sentence = (
        r"^s3://data/x takes more than 128 MiB of memory to decode; if it is sound, "
        rf"raise maxDecompressedBytes, which is {MOST_BYTES}$"
    )
    with pytest.raises(CorruptDataError, match=sentence):
        guarded(store).survey(store.listed("x"), "at")
    store.contents["x"] = f"take {50 << 20}\nsleep 0.2".encode()
    assert guarded(store).survey(store.listed("x"), "at")


def test_an_object_that_keeps_a_process_busy_is_corrupt_after_a_while_of_its_cpu():
    store = objects(x="spin 60", y="1\nspin 0.5\n2\nspin 0.5\n3\nspin 0.5\n4")
    sentence = r"^the object s3://data/x keeps Arrow's reader busy for 1 s of CPU time$"
    with mock.patch.object(guarded_format, "BUSY_S", 1):
        with pytest.raises(CorruptDataError, match=sentence):
            guarded(store).survey(store.listed("x"), "at")
        assert len(lines_of(guarded(store).read(chunk(store.listed("y")), SCHEMA))) == 7


@pytest.mark.parametrize("line", ["fetch 7 9", "thread fetch 7 9"])
def test_what_the_store_raises_is_raised_as_it_is(line):
    store = objects(x=f"{line}\n{'.' * TAIL_BYTES}")
    store.gone = 7, 9
    made = guarded(store)
    with pytest.raises(ObjectGoneError, match=f"^{GONE}$") as error:
        made.survey(store.listed("x"), "at")
    assert error.value.overwritten
    store.gone = False
    assert made.survey(store.listed("x"), "at")


def test_a_large_object_of_a_bucket_is_fetched_by_the_process_that_decodes_it(server, config):
    rows = pa.table(
        {"text": [f"{n} {'x' * 1000}" for n in range(SMALL_BYTES // 1000)], "n": range(SMALL_BYTES // 1000)}
    )
    content = parquet(rows, 1000, compression="none", use_dictionary=False)
    obj = put(ObjectStore(config, "data"), "guarded", content)
    assert obj.size > SMALL_BYTES
    with faulty(server, None, None, 503) as proxy:
        made = GuardedFormat(ParquetFormat(through(proxy, config)))
        assert read(made, obj, rows.schema).equals(rows)
        assert proxy.requests > 3


def test_small_objects_that_are_read_together_have_the_rows_of_each():
    store = objects(a="1\n2", b="3", c="4")
    [batch] = guarded(store).read_together([chunk(store.listed(key)) for key in "abc"], SCHEMA)
    assert lines_of([batch]) == ["1", "2", "3", "4"]
    store.contents["b"] = b"3\nfault"
    with pytest.raises(CorruptDataError, match="ends Arrow's reader"):
        guarded(store).read_together([chunk(store.listed(key)) for key in "abc"], SCHEMA)


@pytest.mark.parametrize(
    ("line", "error", "sentence"),
    [
        ("raise KeyError", ConnectorError, r"^decoding s3://data/x failed: KeyError: 'no'$"),
        ("raise ArrowInvalid", CorruptDataError, r"^s3://data/x cannot be decoded: no$"),
    ],
)
def test_errors_that_nobody_expects_name_the_object(line, error, sentence):
    store = objects(x=line)
    for look in (
        lambda: guarded(store).survey(store.listed("x"), "at"),
        lambda: list(guarded(store).read(chunk(store.listed("x")), SCHEMA)),
    ):
        with pytest.raises(error, match=sentence):
            look()


def nested(levels: int) -> pa.Table:
    values = pa.array([1])
    for _ in range(levels - 1):
        values = pa.StructArray.from_arrays([values], ["a"])
    return pa.table({"n": [1], "deep": values})


@pytest.mark.parametrize("levels", [64, 65, 90])
def test_columns_are_read_as_deep_as_spark_is_given_them(levels):
    table = nested(levels)
    store = InMemory(parquet(table))
    made, obj = GuardedFormat(ParquetFormat(store)), store.listed("x")
    if levels == 64:
        assert read(made, obj, made.infer([obj])).equals(table)
        return
    sentence = (
        rf"^the column 'deep' is nested {levels} levels deep, and Spark can get at most 64: give a schema without"
    )
    for look in (lambda: made.infer([obj]), lambda: read(made, obj, table.schema)):
        with pytest.raises(OptionError, match=sentence):
            look()
    assert read(made, obj, pa.schema([("n", pa.int64())])).to_pylist() == [{"n": 1}]


@pytest.mark.parametrize("line", ["tell 00", "fd ffffffff7fffffffffffffff"])
def test_a_process_that_tells_nonsense_ends_like_one_that_is_damaged(line, monkeypatch):
    monkeypatch.setattr(decoder_process, "END_S", 0.2)
    store = objects(x=line)
    with pytest.raises(CorruptDataError, match=r"^the object s3://data/x ends Arrow's reader \(it sends no message"):
        guarded(store).survey(store.listed("x"), "at")


def test_a_batch_that_is_none_is_an_error_that_names_the_object():
    store = objects(x=f"tell {pickle.dumps(('batch',)).hex()}")
    with pytest.raises(CorruptDataError, match=r"^the decoder process sent no valid batch of s3://data/x: "):
        list(guarded(store).read(chunk(store.listed("x")), SCHEMA))


def test_a_slow_process_is_no_fault_of_the_object_however_long_it_takes():
    store = objects(x="sleep 1.5", y="sleep 600")
    with mock.patch.object(guarded_format, "BUSY_S", 1):
        assert guarded(store).survey(store.listed("x"), "at")
    sentence = r"^the process that decodes s3://data/y gave no answer for 2 s$"
    with mock.patch.object(decoder_process, "SILENT_S", 2), pytest.raises(ConnectorError, match=sentence):
        guarded(store).survey(store.listed("y"), "at")
