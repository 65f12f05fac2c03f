"""The archiver appends to a table, each record once."""

import sys
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tests.enumerators.kafka.test_archived import read as read_range
from tests.support.streams import append, committed_source, delete_before, new_topic
from tests.support.tables import SCHEMA, Delta, Iceberg, record, rows_of
from tidegate.alignment.splits import SplitRange
from tidegate.enumerators.kafka.enumerator import KafkaEnumerator
from tidegate.errors import ConnectorError, DataLossError, OptionError, TidegateError
from tidegate.jobs.archive import pieces as pieces_module
from tidegate.jobs.archive.pieces import plan_archive
from tidegate.jobs.archive.tables import TablePiece, WrittenFile, accepted, target_table
from tidegate.readers.archive.parquet import write_records
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka.reader import KafkaDetails
from tidegate.readers.places.place import Place

NOON = 1_700_049_600_000


@pytest.fixture(params=[Delta, Iceberg], ids=lambda kind: kind.kind)
def table(request, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces_module, "OBJECT_BYTES", 400)  # several files of a partition
    return request.param(tmp_path / "table")


def planned(kafka, topic, table):
    target = target_table(table.location)
    return target, plan_archive(committed_source(kafka, topic, bad_event_time="ignore"), target).pieces


def archived(kafka, topic, table, *, fails=()):
    """Run the archiver, on no Spark; some pieces fail."""
    target, pieces = planned(kafka, topic, table)
    files = [None if number in fails else piece.copy() for number, piece in enumerate(pieces)]
    if done := accepted(zip(pieces, files, strict=True)):
        target.commit(done)
    return done


def read(kafka, topic, **fields):
    return read_range(committed_source(kafka, topic, **fields), 0, 30)


def test_a_run_appends_what_a_table_lacks_and_a_row_that_was_deleted_stays_so(kafka, table):
    topic = new_topic(kafka, [NOON + at for at in range(20)], [NOON] * 3)
    whole = archived(kafka, topic, table)
    assert len(whole) > 3
    assert archived(kafka, topic, table) == []
    append(kafka, topic, {0: [NOON + at for at in range(20, 30)]})
    archived(kafka, topic, table)
    expected = read(kafka, topic)
    assert [{**row, "topic": None} for row in rows_of(table.archive(), 0, topic=topic)] == expected
    assert [row["offset"] for row in rows_of(table.archive(), 1, topic=topic)] == [0, 1, 2]
    delete_before(kafka, topic, 25)
    assert read(kafka, topic, archive=table.location) == expected
    table.delete("partition = 0 and offset >= 28")
    assert archived(kafka, topic, table) == []
    assert len(rows_of(table.archive(), 0, topic=topic)) == 28


def test_of_two_archivers_at_once_one_adds_nothing(kafka, table):
    topic = new_topic(kafka, [NOON] * 20)
    runs = [planned(kafka, topic, table) for _ in range(2)]
    files = [accepted([(piece, piece.copy()) for piece in pieces]) for _, pieces in runs]
    runs[0][0].commit(files[0])
    with pytest.raises(ConnectorError, match=f"another archiver has written {topic}-0 to .* meanwhile; nothing was"):
        runs[1][0].commit(files[1])
    assert len(table.rows()) == 20


def test_a_recreated_topic_needs_another_table_for_archivers_and_for_queries(kafka, table):
    topic = new_topic(kafka, [NOON + at for at in range(20)])
    archived(kafka, topic, table)
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    append(kafka, topic, {0: [NOON + at for at in range(30)]})
    sentence = (
        rf"is '{table.location}', which holds records of {topic}-0 when the topic had the id \S+; it was recreated"
    )
    with pytest.raises(OptionError, match=f"--out {sentence}"):
        archived(kafka, topic, table)
    with pytest.raises(OptionError, match=f"archive {sentence}"):
        read(kafka, topic, archive=table.location)
    assert len(table.rows()) == 20


def test_an_archiver_knows_under_which_leader_it_has_written_what_a_table_holds(kafka, table):
    topic = new_topic(kafka, [NOON + at for at in range(20)])
    archived(kafka, topic, table)
    target = target_table(table.location)
    assert target.directories([(topic, 0)])[topic, 0].leader_epoch == 0
    table.append([record(0, 20, topic=topic)])
    assert target.directories([(topic, 0)])[topic, 0].leader_epoch is None


def test_a_log_that_was_cut_needs_another_table(kafka, table, monkeypatch):
    topic = new_topic(kafka, [NOON + at for at in range(20)])
    archived(kafka, topic, table)
    monkeypatch.setattr(KafkaEnumerator, "ends_under", lambda _, epochs: dict.fromkeys(epochs, 19))
    sentence = rf"^--out is '{table.location}', which holds {topic}-0 up to offset 19, but Kafka has lost its records"
    with pytest.raises(DataLossError, match=sentence):
        archived(kafka, topic, table)


def test_a_commit_that_fails_says_why_in_one_sentence(kafka, table):
    topic = new_topic(kafka, [NOON] * 20)
    target, pieces = planned(kafka, topic, table)
    files = [piece.copy() for piece in pieces]
    if isinstance(table, Iceberg):
        Path(target.place.location, files[0].path).unlink()  # pyiceberg opens what it adds
        with pytest.raises(ConnectorError, match=rf"^cannot commit to {table.location}: .*{files[0].path}[^\n]*$"):
            target.commit(files)
    table.drop()
    with pytest.raises(OptionError, match=f"^--out is '{table.location}', but there is no such table$"):
        target.commit(files)


def test_behind_a_piece_that_failed_the_next_run_goes_on(kafka, table):
    topic = new_topic(kafka, [NOON + at for at in range(20)])
    archived(kafka, topic, table, fails=[1])
    assert 0 < len(table.rows()) < 20
    archived(kafka, topic, table)
    assert [row["offset"] for row in rows_of(table.archive(), 0, topic=topic)] == [*range(20)]
    assert len(table.rows()) == 20


def test_a_table_that_somebody_else_has_made_gets_the_columns_that_it_has(kafka, table):
    topic = new_topic(kafka, [NOON + at for at in range(20)])
    table.append([record(0, at, topic=topic) for at in range(15)], SCHEMA.remove(SCHEMA.get_field_index("headers")))
    archived(kafka, topic, table)
    rows = rows_of(table.archive(), 0, topic=topic)
    assert [row["offset"] for row in rows] == [*range(20)]
    assert rows[-1]["timestamp"].timestamp() * 1000 == NOON + 19


def test_a_partitioned_table_is_refused(kafka, tmp_path):
    table = Delta(tmp_path / "table", partition_by=["topic"])
    table.append([record(0, 0)])
    with pytest.raises(OptionError, match=r"--out is .*, a table that is partitioned by topic"):
        archived(kafka, new_topic(kafka, [NOON]), table)


@pytest.mark.parametrize("at_ms", [-(2**53), -1, 0, 1_764_547_200_000, 1_764_547_200_000_000, 2**53])
def test_a_table_takes_records_of_any_timestamp(tmp_path, at_ms):
    table = Delta(tmp_path / "table")
    target = target_table(table.location)
    target.prepare()
    rows = [{**record(0, offset), "timestamp": None} for offset in range(3)]
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    times = pa.array([at_ms * 1000, 1000, 2000]).cast(SCHEMA.field("timestamp").type)
    batch = batch.set_column(batch.schema.get_field_index("timestamp"), SCHEMA.field("timestamp"), times)
    with Path(table.path, "new.parquet").open("wb") as file:
        records, *bounds = write_records(file, SCHEMA, [batch])
        wanted, details = SplitRange("t-0", 0, 3), KafkaDetails()
        target.commit([WrittenFile(wanted, "new.parquet", file.tell(), records, (0, 2), tuple(bounds), details)])
    directory = table.archive().list_files([("t", 0)], None).directories["t", 0]
    latest_ms = directory.latest_ms(99, -1, lambda _: True)
    assert latest_ms in {None, max(at_ms, 2)}
    assert [file.path.rpartition("/")[2] for part in directory.with_times_from(max(at_ms, 2), 0) for file in part.files]


@pytest.mark.parametrize(("out", "cause"), [("delta:{0}", "log cannot be read: "), ("iceberg:elsewhere.a.b", "URI ")])
def test_a_table_that_cannot_be_opened_is_named_with_the_cause_in_one_sentence(tmp_path, out, cause):
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.parent.mkdir()
    log.write_text("{nonsense")
    with pytest.raises(
        (ConnectorError, OptionError), match=f"^--out is '{out.format(tmp_path)}', .*{cause}.*$"
    ) as caught:
        target_table(out.format(tmp_path)).columns()
    assert "\n" not in str(caught.value)


def test_a_log_that_goes_before_its_notes_are_read_is_an_error_in_one_sentence(tmp_path):
    table = Delta(tmp_path / "table")
    table.append([record(0, 0, topic="orders")])
    noted = target_table(table.location).noted()
    rmtree(tmp_path / "table" / "_delta_log")
    with pytest.raises((ConnectorError, OptionError), match=f"^--out is '{table.location}', ") as caught:
        noted("orders id")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("out", ["delta:lake", "iceberg:lake.a.b"])
def test_a_table_without_its_library_asks_for_the_extra(monkeypatch, out):
    for library in ("deltalake", "pyiceberg"):
        for module in [name for name in sys.modules if name.partition(".")[0] == library]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, library, None)
    extra = out.partition(":")[0]
    with pytest.raises(TidegateError, match=f"with its extra {extra!r}"):
        target_table(out).columns()


def test_a_record_that_does_not_fit_the_table_fails_its_piece_alone(tmp_path):
    batch = pa.RecordBatch.from_pylist([record(0, 0, value=b"\xff")], SCHEMA)
    source = SimpleNamespace(reader=lambda _: SimpleNamespace(read=lambda _: [batch]))
    schema = SCHEMA.set(SCHEMA.get_field_index("value"), pa.field("value", pa.string()))
    task = ReadTask((SplitRange("t-0", 0, 1),), (KafkaDetails(),))
    piece = TablePiece(source, Place(str(tmp_path)), task, "new.parquet", schema)
    with pytest.raises(ConnectorError, match=r"^t-0 has records that the table cannot hold: .*UTF"):
        piece.copy()
    assert list(tmp_path.iterdir()) == []
