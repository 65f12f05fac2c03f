import json

import pytest

from tests.jobs.checkpoints import write_checkpoint
from tests.support.progresses import offset
from tests.support.streams import (
    HOUR,
    NOON,
    archive_topic,
    available_now,
    delete_before,
    even_times,
    kafka_source,
    new_topic,
)
from tidegate.enumerators.folders.folder import LocalFolder
from tidegate.enumerators.planning.offset import Offset
from tidegate.errors import ConnectorError
from tidegate.readers.places.place import Place

FILES = {"logOffset": 3}
BEGINS = {1: {"orders": {"0": 5, "1": 0}}, 2: {"clicks-eu": {"0": 9}}}
BACK_IS_FOR = "; --back is for one with tidegate_kafka"
BATCHES = [
    [FILES, {"orders": {"0": 10, "1": 4}}, {"clicks-eu": {"0": 9}}],
    [FILES, {"orders": {"0": 20, "1": 8}}, {"clicks-eu": {"0": 11}}],
    [FILES, {"orders": {"0": 30, "1": 8, "2": 6}}, {"clicks-eu": {"0": 12}}],
]


@pytest.fixture
def old(tmp_path):
    return tmp_path / "old"


def offsets(checkpoint, number):
    """Return the header of a batch's offsets, and the name, if any, and the offset of each source."""
    version, notes, *lines = (checkpoint / "offsets" / str(number)).read_text().split("\n")
    return version, notes, lines


def ours(line):
    offset = Offset.from_json(json.loads(line), "kafka")
    return offset.progress.positions, offset.starts


def reported(tidegate, *arguments):
    code, output, _ = tidegate("migrate", *arguments, "--json")
    assert code == 0
    return json.loads(output)


@pytest.mark.parametrize(
    ("committed", "batch", "orders", "clicks"),
    [
        (3, 2, {"0": 30, "1": 8, "2": 6}, {"0": 12}),
        (2, 1, {"0": 20, "1": 8}, {"0": 11}),
        (0, None, {"0": 5, "1": 0}, {"0": 9}),
    ],
)
def test_each_source_goes_on_after_the_last_batch_that_is_written(tidegate, old, committed, batch, orders, clicks):
    batches = BATCHES if committed else BATCHES[:1]
    write_checkpoint(old, BEGINS, batches, committed)
    common = {"lastCommittedBatch": batch, "uncommittedBatch": {3: None, 2: 2, 0: 0}[committed]}
    assert reported(tidegate, old) == [
        {"source": "1", **common, "startingOffsets": {"orders": orders}},
        {"source": "2", **common, "startingOffsets": {"clicks-eu": clicks}},
    ]


def test_people_are_told_the_option_and_what_a_new_checkpoint_means(tidegate, old):
    write_checkpoint(old, BEGINS, BATCHES, 2)
    code, output, remarks = tidegate("migrate", old)
    assert (code, output.splitlines()) == (
        0,
        [
            "source 1 (orders) goes on where batch 1 ended, with startingOffsets",
            '{"orders":{"0":20,"1":8}}',
            "source 2 (clicks-eu) goes on where batch 1 ended, with startingOffsets",
            '{"clicks-eu":{"0":11}}',
        ],
    )
    assert "batch 2 is planned but not written: its records are read again" in remarks
    assert "counts its batches from 0" in remarks


def test_a_query_that_never_planned_a_batch_goes_on_where_it_began(tidegate, old, tmp_path):
    write_checkpoint(old, BEGINS, [], 0)
    assert [standing["startingOffsets"] for standing in reported(tidegate, old)] == [*BEGINS.values()]
    code, *_ = tidegate("migrate", old, "--to", tmp_path / "new")
    assert "has no batch yet; start with a new checkpoint" in code


@pytest.mark.parametrize("version", [1, 2])
def test_the_new_checkpoint_is_the_old_one_but_for_the_offsets_of_its_kafka_sources(tidegate, old, tmp_path, version):
    write_checkpoint(old, BEGINS, BATCHES, 2, version)
    new = tmp_path / "new"
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    code, output, remarks = tidegate("migrate", old, "--to", new)
    assert code == 0
    assert f"the checkpointLocation {new}" in output
    assert "batch 2 is planned but not written: it is repeated with the same records" in remarks
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before

    for same in ("metadata", "state/0/0/1.delta", "commits/0", "commits/1"):
        assert (new / same).read_bytes() == (old / same).read_bytes()
    assert {path.relative_to(new) for path in new.rglob("*")} == {path.relative_to(old) for path in old.rglob("*")}

    migrated = []
    for number in range(3):
        (*header, lines), (*old_header, old_lines) = offsets(new, number), offsets(old, number)
        assert (header, lines[0]) == (old_header, old_lines[0])
        names = ["1:", "2:"] if version == 2 else ["", ""]
        lines = [
            lines[0],
            *(line.replace(f',"enumerator":{{"taken_over_ms":{1000 + number}}}', "") for line in lines[1:]),
        ]
        migrated.append([ours(line.removeprefix(name)) for line, name in zip(lines[1:], names, strict=True)])
    assert migrated == [
        [({"orders-0": 10, "orders-1": 4}, {}), ({"clicks-eu-0": 9}, {})],  # it is written, and never read again
        [({"orders-0": 20, "orders-1": 8}, {}), ({"clicks-eu-0": 11}, {})],
        # The built-in source reads a partition that comes later from 0 on.
        [({"orders-0": 30, "orders-1": 8, "orders-2": 6}, {"orders-2": 0}), ({"clicks-eu-0": 12}, {})],
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_a_batch_0_that_is_repeated_begins_where_the_query_began(tidegate, old, tmp_path, version):
    write_checkpoint(old, BEGINS, BATCHES[:1], 0, version)
    assert tidegate("migrate", old, "--to", tmp_path / "new")[0] == 0
    assert [ours(line.partition(":")[2] if version == 2 else line) for line in offsets(tmp_path / "new", 0)[2][1:]] == [
        ({"orders-0": 10, "orders-1": 4}, {"orders-0": 5, "orders-1": 0}),
        ({"clicks-eu-0": 9}, {"clicks-eu-0": 9}),
    ]


def test_named_sources_of_a_query_that_was_stopped_in_batch_0_begin_by_their_names(tidegate, old, tmp_path):
    """Two of one topic that began in several places are told apart by their names alone."""
    begins = {"late": {"orders": {"0": 9}}, "early": {"orders": {"0": 5}}}
    write_checkpoint(old, begins, [{name: {"orders": {"0": 20}} for name in ("early", "late")}], 0)
    assert {entry["source"]: entry["startingOffsets"] for entry in reported(tidegate, old)} == begins
    assert tidegate("migrate", old, "--to", tmp_path / "new")[0] == 0
    lines = (line.split(":", 1) for line in offsets(tmp_path / "new", 0)[2])
    assert {name: ours(text) for name, text in lines} == {
        name: ({"orders-0": 20}, {"orders-0": at}) for name, at in (("early", 5), ("late", 9))
    }


ORDERS, CLICKS = {"orders": {"0": 20}}, {"clicks": {"0": 11}}
USED_TWICE = pytest.mark.parametrize(
    "lines",
    [
        [ORDERS, ORDERS, CLICKS],  # offset log 1 has a line for each use of a DataFrame
        {1: ORDERS, 2: CLICKS},  # offset log 2 has one with the place of its last use
        {1: CLICKS, 0: ORDERS},  # and in any order
    ],
    ids=str,
)


@USED_TWICE
def test_a_dataframe_that_the_query_uses_twice_began_in_one_place(tidegate, old, tmp_path, lines):
    """Spark numbers the folders of ``sources/`` by DataFrame, and the offsets by use."""
    write_checkpoint(old, {0: {"orders": {"0": 5}}, 1: {"clicks": {"0": 9}}}, [lines], 0)
    assert tidegate("migrate", old, "--to", tmp_path / "new")[0] == 0
    began = {"orders-0": 5, "clicks-0": 9}
    for line, before in zip(offsets(tmp_path / "new", 0)[2], offsets(old, 0)[2], strict=True):
        positions, starts = ours(line[line.index("{") :])
        assert starts == {split: began[split] for split in positions}
        assert line.partition("{")[0] == before.partition("{")[0]
    assert {entry["source"]: entry["startingOffsets"] for entry in reported(tidegate, old)} == {
        str(place): {topic: {"0": began[f"{topic}-0"]}}
        for place, line in (lines.items() if isinstance(lines, dict) else enumerate(lines))
        for topic in line
    }


def test_uses_of_one_topic_that_began_in_several_places_are_not_told_apart(tidegate, old, tmp_path):
    begins = {0: {"orders": {"0": 5}}, 1: {"orders": {"0": 9}}}
    write_checkpoint(old, begins, [[ORDERS, ORDERS, ORDERS]], 0)
    sentence = "does not say where source 0 began: sources/0/0 is missing or damaged, or several of sources/ fit"
    assert sentence in tidegate("migrate", old, "--to", tmp_path / "new")[0]
    write_checkpoint(old, begins, [[ORDERS, ORDERS, ORDERS]], 1)
    assert tidegate("migrate", old, "--to", tmp_path / "new")[0] == 0  # no batch begins there again


def test_a_command_that_ends_early_has_written_the_newest_offsets_first_and_all_else_before_them(
    tidegate, old, tmp_path, monkeypatch
):
    write_checkpoint(old, BEGINS, BATCHES, 2)
    written, create = [], LocalFolder.create

    def create_until_full(folder, name, data):
        if len(written) == room:
            raise ConnectorError("the disk is full")
        written.append(name)
        return create(folder, name, data)

    monkeypatch.setattr(LocalFolder, "create", create_until_full)
    offsets_by_room = []
    for room in range(9):
        new = tmp_path / f"new-{room}"
        written.clear()
        assert tidegate("migrate", old, "--to", new)[0] == "tidegate: the disk is full"
        offsets_by_room.append({path.name for path in new.glob("offsets/*")})
    # The metadata, the state, two beginnings and two commits are the first of nine files.
    assert offsets_by_room == [*[set()] * 7, {"2"}, {"1", "2"}]


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_query_that_still_runs_is_not_taken_over(tidegate, old, tmp_path, monkeypatch, log):
    write_checkpoint(old, BEGINS, BATCHES, 2)
    create = LocalFolder.create

    def create_while_it_runs(folder, name, data):
        (old / log / "3").write_bytes(b"v1")
        return create(folder, name, data)

    monkeypatch.setattr(LocalFolder, "create", create_while_it_runs)
    new = tmp_path / "new"
    assert f"the query of {old} still runs: a batch came meanwhile; stop it" in tidegate("migrate", old, "--to", new)[0]
    assert not (new / "offsets").exists()


def test_batches_that_were_planned_far_ahead_of_those_written_are_left_out(tidegate, old, tmp_path):
    write_checkpoint(old, BEGINS, BATCHES, 1)
    new = tmp_path / "new"
    assert tidegate("migrate", old, "--to", new)[0] == 0
    assert sorted(path.name for path in (new / "offsets").iterdir()) == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("{old}", "--to", "{old}"), "--to is {old}, which is not empty; name a new folder"),
        (
            ("{old}", "--to", "{old}/new"),
            "--to is {old}/new, which is in the old checkpoint; name a folder beside it",
        ),
        (("{old}", "--to", "hdfs://a/b"), "--to is 'hdfs://a/b'; it must be a path, or s3://bucket/prefix"),
        (
            ("{old}/none",),
            f"CHECKPOINT is {{old}}/none, which is not a checkpoint with Spark's built-in Kafka source{BACK_IS_FOR}",
        ),
        (("{old}", "--back"), "CHECKPOINT is {old}, which is not a checkpoint with tidegate_kafka"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(tidegate, old, arguments, sentence):
    write_checkpoint(old, BEGINS, BATCHES, 3)
    code, output, _ = tidegate("migrate", *(argument.format(old=old) for argument in arguments))
    assert (code, output) == (f"tidegate: {sentence.format(old=old)}", "")


@pytest.mark.parametrize("committed", [0, 1])
def test_a_pattern_that_never_matched_a_topic_has_nothing_to_migrate(tidegate, old, committed):
    write_checkpoint(old, {1: {}}, [[FILES, {}]], committed)
    assert tidegate("migrate", old)[0] == (
        f"tidegate: CHECKPOINT is {old}, and its source 1 has found no topic yet, so there is no offset to go on from: "
        "begin with a new checkpoint and startingOffsets=earliest"
    )


@pytest.mark.parametrize("version", [1, 2])
def test_the_way_back_ends_at_the_offsets_where_it_began(tidegate, old, tmp_path, version):
    write_checkpoint(old, BEGINS, BATCHES, 2, version)
    there, back = tmp_path / "there", tmp_path / "back"
    assert tidegate("migrate", old, "--to", there)[0] == 0
    code, output, remarks = tidegate("migrate", there, "--to", back, "--back")
    assert code == 0
    assert f"start the query with the format kafka and the checkpointLocation {back}" in output
    assert "batch 2 is planned but not written: it is repeated with the same records" in remarks
    for path in old.rglob("*"):
        if path.is_file():
            ours = (back / path.relative_to(old)).read_text()
            assert ours.replace(" ", "") == path.read_text().replace(" ", ""), path
    assert reported(tidegate, there, "--back") == reported(tidegate, old)


@pytest.mark.parametrize(
    ("batches", "committed", "sentence"),
    [
        (
            [offset(9, starts={"orders-0": 5})],
            0,
            "batch 0 is planned but not written, and begins to read orders-0 at 5",
        ),
        ([offset(9), offset(4, starts={"orders-0": 0})], 1, "begins to read orders-0 at 0, which the built-in"),
        ([offset(9, addOns={"windows": {"a": "b"}})], 1, "source 0 has windows of tidegate.windowed"),
    ],
)
def test_there_is_no_way_back_with_other_records_or_without_the_windows(
    tidegate, old, tmp_path, batches, committed, sentence
):
    write_checkpoint(old, {}, [[batch] for batch in batches], committed)
    code, *_ = tidegate("migrate", old, "--to", tmp_path / "new", "--back")
    assert sentence in code
    assert not (tmp_path / "new").exists()
    if "addOns" not in batches[0]:  # once it is written, it need not be repeated
        write_checkpoint(old, {}, [[batch] for batch in batches], committed + 1)
        assert tidegate("migrate", old, "--to", tmp_path / "new", "--back")[0] == 0


def test_a_first_batch_without_the_offsets_where_the_query_began_cannot_be_repeated(tidegate, old, tmp_path):
    write_checkpoint(old, {}, BATCHES[:1], 0)
    code, *_ = tidegate("migrate", old, "--to", tmp_path / "new")
    assert "does not say where source 1 began: sources/1/0 is missing or damaged" in code


def test_a_checkpoint_in_a_bucket_is_migrated_too(tidegate, old, s3, bucket, monkeypatch):
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    write_checkpoint(old, BEGINS, BATCHES, 2)
    there = f"{bucket.path}/checkpoint"
    assert tidegate("migrate", old, "--to", there)[0] == 0
    sentence = f"CHECKPOINT is {there}, which is not a checkpoint with Spark's built-in Kafka source"
    assert sentence in tidegate("migrate", there)[0]


def test_a_migrated_query_goes_on_in_an_archive_where_kafka_has_deleted_records(kafka, spark, tidegate, old, tmp_path):
    topic, lake, new = new_topic(kafka, even_times(NOON, NOON + HOUR, 60)), tmp_path / "lake", tmp_path / "new"
    archive_topic(kafka, topic, Place(str(lake)))
    delete_before(kafka, topic, 40)
    write_checkpoint(old, {0: {topic: {"0": 0}}}, [[{topic: {"0": 10}}], [{topic: {"0": 20}}]], 1)
    assert tidegate("migrate", old, "--to", new)[0] == 0
    source = kafka_source(kafka, topic, archive=str(lake))
    run = available_now(source.read_stream(spark).select("partition", "offset"), new)
    assert run.offsets() == [(0, offset) for offset in range(10, 60)]
    assert [row["offset"] for row in run.rows[1]] == [*range(10, 20)]  # the batch that was not written
