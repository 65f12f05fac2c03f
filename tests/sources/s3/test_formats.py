"""The S3 source reads formats through Spark as Spark's own readers do, and names the options that do not fit."""

import pytest

from tests.support.streams import HOUR, NOON, milliseconds

UNTIMED = {
    "csv": (b'id,name\n1,"a, b"\n,\n\n2,"\xc3\xbc"\n', {"header": True}),
    "text": (b"a\r\n\nb\rc\xff", {}),
    "binaryFile": (b"\x00\xff\n", {}),
}


@pytest.mark.parametrize("file_format", UNTIMED)
def test_a_batch_query_reads_what_sparks_own_reader_reads(spark, bucket, source, tmp_path, file_format):
    content, options = UNTIMED[file_format]
    (tmp_path / "local").mkdir()
    for name in ("a", "b"):
        bucket.put(name, content)
        (tmp_path / "local" / name).write_bytes(content)
    bucket.put("empty", b"")
    (tmp_path / "local" / "empty").touch()
    ours = source(file_format=file_format, state_location=None, **options).read(spark)
    theirs = spark.read.options(**options).format(file_format).load(str(tmp_path / "local"))
    assert ours.schema == theirs.schema
    columns = [name for name in ours.columns if name not in ("path", "modificationTime")]
    rows = sorted(map(str, ours.select(*columns).collect()))
    assert rows == sorted(map(str, theirs.select(*columns).collect()))
    assert len(rows) >= 2
    if file_format == "binaryFile":
        assert {row["path"] for row in ours.collect()} == {f"{bucket.path}/a", f"{bucket.path}/b"}


def test_csv_without_a_header_goes_by_the_given_schema_but_for_columns_of_folders(spark, bucket):
    for day in (15, 16):
        bucket.put(f"day={day}/part", f"{day};x;2023-11-{day} 10:00:00\n".encode())
    options = {
        "path": bucket.path,
        "fileFormat": "csv",
        "delimiter": ";",
        "eventTime": "column:at",
        "startingTimestamp": "2023-11-16T00:00:00",
        **bucket.options,
    }
    given = spark.read.format("tidegate_s3").schema("id int, day int, name string, at timestamp").options(**options)
    (row,) = given.load().collect()
    assert (row["id"], row["day"], row["name"], milliseconds(row["at"])) == (16, 16, "x", NOON + 22 * HOUR)
