"""A topic with an archive is planned and read like its twin, of which Kafka has kept every record."""

import json
import shutil
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from kafka import KafkaProducer

from tests.support.command import await_that
from tests.support.kafka.lab import Lab
from tests.support.logs import coordinating
from tests.support.streams import append, archive_topic, committed_source, delete_before, kafka_source, new_topic
from tests.support.tables import Delta, Iceberg, fill
from tidegate import KafkaSource
from tidegate.alignment.budget import Budget
from tidegate.alignment.splits import Head, Horizon, SplitRange
from tidegate.enumerators.kafka import history
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import CorruptDataError, DataLossError, OptionError
from tidegate.jobs.archive import pieces as pieces_module
from tidegate.jobs.archive.pieces import copy, plan_archive
from tidegate.readers.archive.objects import parse_name
from tidegate.readers.contract import ReadTask
from tidegate.readers.places.place import Place
from tidegate.servers.history import encode_batch, write_batches

FIRST_MS = 1_700_000_000_000
FAR_MS = 4_080_000_000_000
COUNT = 240
ARCHIVED, KEPT_FROM = 160, 120  # Kafka still has some of the archived records


def times_of(seed):
    """Return times that are out of order, two without a time, and in the first topic one of the year 2099."""
    times = FIRST_MS + np.arange(COUNT) * 1000 + np.random.default_rng(seed).integers(0, 5000, COUNT)
    times[[30, 130]] = -1
    times[10] = FAR_MS if seed == 1 else times[10]
    return times


def source(kafka, topic, **fields):
    return committed_source(kafka, topic, **{"bad_event_time": "ignore", "starting_offsets": "earliest", **fields})


@pytest.fixture(scope="module")
def twins(kafka, tmp_path_factory):
    """Return a topic of which Kafka has all, one of which it has the end, and the archives of the latter by kind."""
    place = tmp_path_factory.mktemp("archive")
    times = [times_of(seed) for seed in (1, 2)]
    older, later = ([of_partition[part] for of_partition in times] for part in (slice(ARCHIVED), slice(ARCHIVED, None)))
    whole, cut = new_topic(kafka, *older), new_topic(kafka, *older)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces_module, "OBJECT_BYTES", 2000)
        archive_topic(kafka, cut, Place(str(place)))
    assert len([*place.rglob("*.parquet")]) > 4
    for topic in (whole, cut):
        append(kafka, topic, dict(enumerate(later)))
    tables = {"archive": str(place)}
    for kind in (Delta, Iceberg):
        table = kind(place / kind.kind)
        fill(table, committed_source(kafka, cut, bad_event_time="ignore"), [ARCHIVED] * 2)
        tables[kind.kind] = table.location
    delete_before(kafka, cut, KEPT_FROM)
    delete_before(kafka, cut, ARCHIVED, partition=1)  # nothing is in both places
    return whole, cut, tables


@pytest.fixture(params=["archive", "delta", "iceberg"])
def place(request, twins):
    """Return the archive of the topic of which Kafka has the end, in each of its kinds."""
    return twins[2][request.param]


@contextmanager
def planning(of):
    with closing(of.enumerator(None)) as enumerator:
        splits = sorted(enumerator.discover())
        enumerator.extents(splits)
        yield enumerator, splits


def named(answers):
    """Return answers by the numbers of their partitions."""
    return {split.rpartition("-")[2]: answer for split, answer in answers.items()}


def read(of, start, end, partition=0, **task):
    with planning(of) as (enumerator, splits):
        wanted = SplitRange(splits[partition], start, end)
        task = ReadTask((wanted,), (enumerator.details(wanted),), **task)
    rows = [row for batch in of.reader(None).read(task) for row in batch.to_pylist()]
    # pyiceberg writes an empty list in place of a null.
    return [{**row, "topic": None, "headers": row.get("headers") or None} for row in rows]


def test_a_topic_is_planned_as_if_kafka_had_kept_it(kafka, twins, place):
    whole, cut, _ = twins
    hold = {"future_event_time": "hold"}
    fields = {"archive": place, **hold}
    with (
        planning(source(kafka, whole, **hold)) as (expected, of_whole),
        planning(source(kafka, cut, **fields)) as (ours, of_cut),
    ):
        assert named(ours.extents(of_cut)) == named(expected.extents(of_whole))
        horizon = Horizon()
        for position in range(0, COUNT, 7):
            heads = ours.peek(dict.fromkeys(of_cut, position), horizon)
            assert named(heads) == named(expected.peek(dict.fromkeys(of_whole, position), horizon))
        for start, time_ms in product((0, 9, 11, 117), range(FIRST_MS - 1000, FIRST_MS + 250_000, 7000)):
            found = ours.lookup(time_ms, dict.fromkeys(of_cut, start))
            for split, times in zip(of_cut, map(times_of, (1, 2)), strict=True):  # the record of 2099 blinds nothing
                first = next((at for at in range(start, COUNT) if times[at] >= time_ms), None)
                assert found[split] == (None if first is None else Head(first, times[first]))
        ends = dict.fromkeys(of_cut, COUNT)
        latest = named(expected.latest(dict.fromkeys(of_whole, COUNT), horizon))
        known = named(ours.latest(ends, horizon))
        assert known.items() <= latest.items()
        assert known == latest or ":" in place, "only files with several partitions leave it to peeks"
        ranges = [SplitRange(split, 11, 200) for split in of_cut]
        early = Horizon(FIRST_MS + 100_000)
        held = expected.held([SplitRange(split, 11, 200) for split in of_whole], early)
        assert named(ours.held(ranges, early)) == named(held)
        assert ours.metrics() == {"archiveMissingOffsets": 0, "archiveReadOffsets": 0}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"starting_offsets": None, "starting_timestamp": FIRST_MS + 60_000, "ending_timestamp": FIRST_MS + 90_000},
        {"starting_offsets": None, "starting_timestamp": FIRST_MS + 90_000, "ending_timestamp": FIRST_MS + 220_000},
        {"starting_offsets": {"0": 40, "1": 150}, "ending_offsets": {"0": 110, "1": 200}},
    ],
)
def test_starts_and_ends_reach_into_the_archive(kafka, twins, place, fields):
    whole, cut, _ = twins
    found = []
    for topic, more in ((whole, {}), (cut, {"archive": place})):
        of_topic = {name: {topic: at} if isinstance(at, dict) else at for name, at in fields.items()}
        with planning(source(kafka, topic, **of_topic, **more)) as (enumerator, splits):
            found.append((named(enumerator.starts(splits, first=True)), named(enumerator.stops(splits))))
            assert set(named(enumerator.starts(splits, first=False)).values()) == {0}
    assert found[0] == found[1]


def test_an_offset_is_that_of_a_topic_without_an_archive(kafka, twins):
    whole, cut, places = twins
    offsets = []
    for of in (source(kafka, whole), source(kafka, cut, archive=places["archive"])):
        with coordinating(of) as run:
            offset = run.latest_offset(INITIAL_OFFSET)
        (topic,) = offset["enumerator"].pop("topics").values()
        assert topic.keys() == {"id", "epochs"}
        assert set(offset["positions"].values()) == {COUNT}
        offsets.append(json.dumps({**offset, "horizon": None}).replace(of.subscribe[0], "t"))
    assert offsets[0] == offsets[1]


@pytest.mark.parametrize("wanted", [(0, COUNT), (15, 99), (115, 165), (160, 200), (159, 160), (200, COUNT)])
def test_any_range_gives_the_rows_of_kafka(kafka, twins, place, wanted):
    whole, cut, _ = twins
    start, end = wanted
    expected = read(source(kafka, whole), start, end)
    assert len(expected) == end - start
    assert read(source(kafka, cut, archive=place), start, end) == expected


def test_aborted_records_are_read_from_neither_place(kafka, tmp_path):
    topic = new_topic(kafka, [FIRST_MS])
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic)) as producer:
        producer.init_transactions()
        for round_ in range(2):
            producer.begin_transaction()
            producer.send(topic, value=b"aborted", partition=0).get(60)
            producer.abort_transaction()
            end = 3 * (round_ + 1)  # the broker confirms that it will write the marker, not that it has
            await_that(lambda end=end: Lab(kafka).end(topic, isolation_level="read_committed") == end)
            if round_ == 0:
                archive_topic(kafka, topic, Place(str(tmp_path)))
            append(kafka, topic, {0: [FIRST_MS]})
    rows = read(kafka_source(kafka, topic, archive=str(tmp_path)), 0, 7)
    assert [row["offset"] for row in rows] == [0, 3, 6]


def test_event_times_of_fields_are_found_in_both_places(kafka, twins, place):
    whole, cut, _ = twins

    def by_value(batch):
        """Return times of every third record; the planner finds them by peeks only."""
        offsets = batch.column("offset").to_numpy()
        return np.where(offsets % 3 == 0, FIRST_MS + offsets, -1)

    fields = {"event_time": by_value}
    with (
        planning(source(kafka, whole, **fields)) as (expected, of_whole),
        planning(source(kafka, cut, archive=place, **fields)) as (archived, of_cut),
    ):
        assert not hasattr(archived, "lookup")
        for position in (0, 1, 118, 119, 158, 160, 238):
            heads = archived.peek(dict.fromkeys(of_cut, position), Horizon())
            assert named(heads) == named(expected.peek(dict.fromkeys(of_whole, position), Horizon()))
    offsets = [row["offset"] for row in read(source(kafka, cut, archive=place, **fields), 0, COUNT)]
    assert offsets == [*range(COUNT)]


@pytest.mark.parametrize("kind", [Delta, Iceberg])
def test_event_times_in_values_are_found_in_a_table(kafka, tmp_path, kind):
    """Its values are texts."""
    topic = new_topic(kafka, [])
    times = FIRST_MS + np.random.default_rng(3).permutation(60)
    values = np.array([list(b'{"at":%d}' % at) for at in times], np.uint8)
    write_batches(kafka.bootstrap_servers, topic, [(0, encode_batch(FIRST_MS + np.arange(60), values, "none"))])
    table = kind(tmp_path / "table")
    rows = pa.Table.from_batches(
        committed_source(kafka, topic).reader(None).read(ReadTask((SplitRange(f"{topic}-0", 0, 40),)))
    )
    table.append(rows.set_column(1, "value", rows["value"].cast(pa.string())))
    delete_before(kafka, topic, 30)
    with planning(source(kafka, topic, archive=table.location, event_time="json:/at")) as (enumerator, (split,)):
        for position in (0, 17, 29, 39, 40, 59):
            assert enumerator.peek({split: position}, Horizon()) == {split: Head(position, times[position])}


@pytest.mark.parametrize("kind", [Delta, Iceberg])
def test_what_a_batch_finds_gone_comes_from_the_newest_version_then_from_kafka(kafka, tmp_path, kind):
    topic = new_topic(kafka, FIRST_MS + np.arange(20))
    table = kind(tmp_path / "table")
    fill(table, committed_source(kafka, topic), [15])
    delete_before(kafka, topic, 3)
    of = source(kafka, topic, archive=table.location)
    with planning(of) as (enumerator, (split,)):
        wanted = SplitRange(split, 0, 20)
        task = ReadTask((wanted,), (enumerator.details(wanted),))
        table.delete("offset = 5 or offset >= 8")
        table.forget()
        assert enumerator.peek({split: 5}, Horizon()) == {split: Head(6, FIRST_MS + 6)}

    def offsets():
        return [offset for batch in of.reader(None).read(task) for offset in batch["offset"].to_pylist()]

    assert offsets() == [at for at in range(20) if at != 5]
    delete_before(kafka, topic, 12)
    with pytest.raises(DataLossError, match=r"records 8 to 15 of .* reaches from 12 to 20 \(failOnDataLoss\)"):
        offsets()


def test_what_neither_place_has_ends_the_batch_before_a_row_is_read(kafka, twins, tmp_path, caplog):
    _, cut, places = twins
    place = tmp_path / "archive"
    shutil.copytree(f"{places['archive']}/{cut}/0", folder := place / cut / "0")
    gone = {f: f.read_bytes() for f in folder.iterdir() if int(f.name.split(".")[1]) > KEPT_FROM - 20}
    for file in gone:
        file.unlink()
    end = int(max(folder.iterdir()).name.split(".")[1])
    of = source(kafka, cut, archive=str(place))
    sentence = f"offsets {end} to {KEPT_FROM - 1} of {cut}-0 are lost: .* and Kafka begins at {KEPT_FROM} "
    with pytest.raises(DataLossError, match=sentence):
        read(of, 0, COUNT)
    assert len(read(of, 0, end)) == end
    assert len(read(of, KEPT_FROM, COUNT)) == COUNT - KEPT_FROM
    accepted = of.model_copy(update={"fail_on_data_loss": False})
    assert [row["offset"] for row in read(accepted, 0, COUNT)] == [*range(end), *range(KEPT_FROM, COUNT)]
    assert "are skipped" in caplog.text
    assert f"holds no records of {cut}-1, but Kafka has deleted those before {ARCHIVED}" in caplog.text
    with planning(accepted) as (enumerator, splits):
        enumerator.details(SplitRange(splits[0], 0, COUNT))
        enumerator.details(SplitRange(splits[0], 0, COUNT))
        assert enumerator.metrics() == {"archiveMissingOffsets": KEPT_FROM - end, "archiveReadOffsets": end}
    with planning(of) as (enumerator, splits):  # an object that comes late is found
        for file, content in gone.items():
            file.write_bytes(content)
        assert enumerator.details(SplitRange(splits[0], 0, COUNT)).archived[-1].end == ARCHIVED


def test_a_planner_goes_on_behind_objects_that_a_lifecycle_rule_has_deleted(kafka, twins, tmp_path):
    _, cut, places = twins
    shutil.copytree(places["archive"], tmp_path / "archive")
    for look in ("peek", "lookup"):
        with planning(source(kafka, cut, archive=str(tmp_path / "archive"))) as (enumerator, (split, _)):
            oldest = min((tmp_path / "archive" / cut / "0").iterdir())
            oldest.unlink()
            asked = {"peek": ({split: 0}, Horizon()), "lookup": (0, {split: 0})}
            assert getattr(enumerator, look)(*asked[look])[split].position == int(oldest.name.split(".")[1])


@pytest.mark.parametrize("changed", [{"max_ms": FIRST_MS}, {"first": 5}, {"next": 3}, {"topic_id": ""}])
def test_an_object_that_was_renamed_ends_the_query_before_a_record_is_skipped(kafka, twins, tmp_path, changed):
    """By its new name, the object has no record as late as the start of the query, so nobody would open it."""
    _, cut, places = twins
    shutil.copytree(places["archive"], tmp_path / "archive")
    oldest = min((tmp_path / "archive" / cut / "0").iterdir())
    obj = parse_name(f"{cut}/0", oldest.name, oldest.stat().st_size)
    name = obj._replace(**changed).name.split(".")
    oldest.rename(oldest.with_name(".".join([*name[:-2], oldest.name.split(".")[-2], name[-1]])))
    of = source(kafka, cut, archive=str(tmp_path / "archive"), starting_offsets=None, starting_timestamp=FIRST_MS + 1)
    with pytest.raises(CorruptDataError, match="has another name than when it was written"), planning(of) as planned:
        planned[0].starts(planned[1], first=True)


def test_a_planner_lists_the_archive_again_after_an_hour(kafka, twins, tmp_path, monkeypatch):
    _, cut, places = twins
    shutil.copytree(places["archive"], tmp_path / "archive")
    with planning(source(kafka, cut, archive=str(tmp_path / "archive"))) as (enumerator, (split, _)):
        oldest = min((tmp_path / "archive" / cut / "0").iterdir())
        oldest.unlink()
        left = SplitRange(split, 50, COUNT)
        enumerator.details(left)  # the listing is new, so Kafka has all records behind it
        assert enumerator.extents([split])[split].begin == 0
        monkeypatch.setattr(history, "_LISTED_FOR_S", -1)
        enumerator.details(left)
        assert enumerator.extents([split])[split].begin == int(oldest.name.split(".")[1])


@pytest.mark.parametrize("kind", [Delta, Iceberg])
def test_a_repeated_batch_reads_the_version_of_the_table_that_it_was_planned_with(kafka, tmp_path, monkeypatch, kind):
    topic = new_topic(kafka, FIRST_MS + np.arange(20), FIRST_MS + np.arange(20))
    table = kind(tmp_path / "table")
    fill(table, committed_source(kafka, topic), [15, 15])
    delete_before(kafka, topic, 10)
    of = source(kafka, topic, archive=table.location, max_offsets_per_trigger=20)

    def rows(run, offset):
        batches = [batch for task in run.tasks(INITIAL_OFFSET, offset) for batch in of.reader(None).read(task)]
        return sorted((row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist())

    with coordinating(of) as run:
        offset = run.latest_offset(INITIAL_OFFSET, Budget(rows=20))
        assert offset["enumerator"]["archive"] == table.version
        planned = rows(run, offset)
    table.delete("offset = 3")
    assert {(0, 3), (1, 3)} <= set(planned)
    with coordinating(of) as run:
        assert rows(run, offset) == planned
        monkeypatch.setattr(history, "_PINNED_FOR_S", -1)
        later = run.latest_offset(offset, Budget(rows=20))
        assert later["enumerator"]["archive"] == table.version != offset["enumerator"]["archive"]
    table.forget()
    with coordinating(of) as run:
        assert rows(run, offset) == [row for row in planned if row[1] != 3]


@pytest.mark.parametrize("kind", [Delta, Iceberg])
def test_rows_that_a_table_has_lost_stay_so_but_for_those_behind_its_last(kafka, tmp_path, kind):
    """Kafka still has them all; what the table says ends with its last row."""
    topic = new_topic(kafka, FIRST_MS + np.arange(20))
    table = kind(tmp_path / "table")
    fill(table, committed_source(kafka, topic), [15])
    table.delete("offset = 3 or offset = 11 or offset >= 13")
    offsets = [row["offset"] for row in read(source(kafka, topic, archive=table.location), 0, 20)]
    assert offsets == [at for at in range(20) if at not in {3, 11}]


def test_records_of_an_object_that_is_gone_are_looked_for_in_kafka(kafka, tmp_path, monkeypatch):
    topic = new_topic(kafka, FIRST_MS + np.arange(20))
    monkeypatch.setattr(pieces_module, "OBJECT_BYTES", 700)
    archive_topic(kafka, topic, Place(str(tmp_path)))
    delete_before(kafka, topic, 3)
    first, *gone = sorted(tmp_path.rglob("*.parquet"))
    behind = int(first.name.split(".")[1]) + 1
    assert gone
    assert 3 < behind < 19
    contents = {file: file.read_bytes() for file in gone}
    for look in ("peek", "held"):
        for file, content in contents.items():
            file.write_bytes(content)
        with planning(source(kafka, topic, archive=str(tmp_path))) as (enumerator, (split,)):
            for file in gone:
                file.unlink()
            asked = {split: behind} if look == "peek" else [SplitRange(split, behind, 20)]
            horizon = Horizon() if look == "peek" else Horizon(FIRST_MS)
            assert getattr(enumerator, look)(asked, horizon) == {split: Head(behind, FIRST_MS + behind)}


def test_an_object_that_is_gone_or_damaged_ends_the_task(kafka, tmp_path):
    topic = new_topic(kafka, [FIRST_MS] * 20)
    archive_topic(kafka, topic, Place(str(tmp_path)))
    of = source(kafka, topic, archive=str(tmp_path))
    (file,) = tmp_path.rglob("*.parquet")
    content = file.read_bytes()
    with planning(of) as (enumerator, splits):
        wanted = SplitRange(splits[0], 0, 20)
        task = ReadTask((wanted,), (enumerator.details(wanted),))
    file.write_bytes(content[:100] + bytes(200) + content[300:])
    with pytest.raises(CorruptDataError, match="cannot be read"):
        list(of.reader(None).read(task))
    file.unlink()
    delete_before(kafka, topic, 5)
    with pytest.raises(DataLossError, match=r"records 0 to 20 of .* reaches from 5 to 20 \(failOnDataLoss\)"):
        list(of.reader(None).read(task))
    batches = of.model_copy(update={"fail_on_data_loss": False}).reader(None).read(task)
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == [*range(5, 20)]


def test_an_archive_of_something_else_is_refused(kafka, twins, tmp_path, caplog):
    place = twins[2]["archive"]
    other = new_topic(kafka, [FIRST_MS])
    with planning(source(kafka, other, archive=place)) as (enumerator, splits):  # Kafka has all
        enumerator.extents(splits)
    assert caplog.text.count(f"archive is {place!r}, which holds no records of {other}-0; all come from Kafka") == 1
    (piece,) = plan_archive(source(kafka, other), Place(str(tmp_path))).pieces
    copy(replace(piece, obj=piece.obj._replace(topic_id="3wPRAVyyQuWBJIrTXdHuzg")))
    of = source(kafka, other, archive=str(tmp_path))
    with pytest.raises(OptionError, match="the id 3wPRAVyyQuWBJIrTXdHuzg; it was recreated as"), planning(of):
        pass
    with planning(of.model_copy(update={"fail_on_data_loss": False})) as (enumerator, (split,)):
        assert enumerator.details(SplitRange(split, 0, 1)).archived == ()
    late, obj = f"{other}-late", piece.obj._replace(folder=f"{other}-late/0", topic_id="3wPRAVyyQuWBJIrTXdHuzg")
    copy(replace(piece, place=Place(str(tmp_path / "late")), obj=obj))
    of = KafkaSource(
        bootstrap_servers=kafka.bootstrap_servers,
        subscribe_pattern=f"{other}.*",
        archive=str(tmp_path / "late"),
        kafka={"isolation.level": "read_committed"},
    )
    with planning(of) as (enumerator, _):
        kafka.create_topic(late)
        with pytest.raises(OptionError, match=f"holds records of {late}-0 when the topic had the id 3wPRAVyy"):
            enumerator.discover()
    copy(replace(piece, place=Place(str(tmp_path / "longer")), obj=piece.obj._replace(next=3)))
    of = source(kafka, other, archive=str(tmp_path / "longer"))
    with (
        pytest.raises(DataLossError, match=f"holds {other}-0 up to offset 2, but Kafka has lost .* from 1 on"),
        planning(of),
    ):
        pass
    delete_before(kafka, other, 1)
    with (
        pytest.raises(OptionError, match=f"which holds no records of {other}-0, but Kafka has deleted those before 1"),
        planning(source(kafka, other, archive=place)),
    ):
        pass
