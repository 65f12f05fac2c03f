"""Endpoints that fail, or are not S3: no row is lost, doubled or another one's."""

import hashlib
import json
import random
from collections import Counter
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from tests.support.logs import coordinating
from tests.support.objects.endpoints import FAULTS, TOKEN, faulty, odd_endpoint, proxied
from tests.support.servers.stub import stub
from tests.support.streams import HOUR, NOON
from tidegate import S3Source
from tidegate.alignment.budget import Budget
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.s3.discovery.listing import ObjectListing
from tidegate.errors import ConnectorError, ObjectGoneError
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.listing import Listed
from tidegate.readers.s3.store import ObjectStore


def by_path(keys):
    return sorted(keys, key=lambda key: key.split("/"))


def by_utf16(keys):
    return sorted(keys, key=lambda key: key.encode("utf-16-be"))


def without_case(keys):
    return sorted(keys, key=lambda key: (key.lower(), key))


def shuffled(keys):
    return random.Random(len(keys)).sample(keys, len(keys))


def pages_in_disorder(keys):
    """Return keys of which every fourth comes later: each of four pages is in order."""
    return [key for first in range(4) for key in sorted(keys)[first::4]]


FOLDERS = [
    *(f"d{number:03}" for number in range(296)),
    *("d-1", "D9", "d!", "\U0001f600", "\uff41", "é"),
    *(f"{letter}{number}" for letter in "aAbB" for number in range(75)),
]
OBJECTS = {f"in/k={folder}/{name}.txt": b"x\n" for folder in FOLDERS for name in ("1", "2")}


SCHEMA = pa.schema([("value", pa.string())])
THREE = {f"in/{name}.txt": f"{name}\n".encode() for name in "abc"}
WEAK, OTHER = 'W/"{}"'.format, '"other-{}"'.format


def source(endpoint, **fields):
    return S3Source(
        **{"path": "s3://odd/in", "file_format": "text", "columns": SCHEMA, **fields}, **endpoint.connection
    )


def values(of, offset=INITIAL_OFFSET):
    """Return what a bounded run of a source reads, and its last offset."""
    rows, more = [], True
    with coordinating(of) as run:
        run.bound_run()
        while more:
            end = json.loads(json.dumps(run.latest_offset(offset)))
            more = end != offset
            for task in run.tasks(offset, end) if more else ():
                rows += [row["value"] for batch in of.reader(None).read(task) for row in batch.to_pylist()]
            offset = end
    return sorted(rows), offset


@pytest.mark.parametrize(
    ("order", "page_keys"),
    [(sorted, 1000), *((order, 7) for order in (by_path, by_utf16, without_case, shuffled, pages_in_disorder))],
)
def test_every_object_is_listed_once_in_whatever_order(order, page_keys):
    with odd_endpoint(objects=OBJECTS, order=order, page_keys=page_keys, repeats_folders=True) as endpoint:
        pages = ObjectListing(endpoint.config, "odd", source(endpoint).listing_rules).pages()
        assert Counter(obj.key for page in pages for obj in page) == Counter([*OBJECTS])
        assert endpoint.requests[0][2]["prefix"] == "in/"
        if page_keys == 1000:
            assert len(endpoint.requests) < len(FOLDERS) / 4


def test_an_endpoint_that_takes_no_part_of_a_name_as_a_prefix_is_listed_folder_by_folder():
    def refuse(request):
        prefix = parse_qs(urlsplit(request.path).query)["prefix"][0]
        return None if prefix.endswith("/") else (400, b"<Error><Code>InvalidArgument</Code></Error>")

    with odd_endpoint(objects=OBJECTS, says=refuse) as endpoint:
        pages = ObjectListing(endpoint.config, "odd", source(endpoint).listing_rules).pages()
        assert Counter(obj.key for page in pages for obj in page) == Counter([*OBJECTS])


def test_a_query_reads_a_key_once_that_is_listed_on_two_pages():
    def twice(keys):
        return [key for key in sorted(keys) for _ in range(2)]

    with odd_endpoint(objects=THREE, order=twice, page_keys=1) as endpoint:
        assert values(source(endpoint))[0] == ["a", "b", "c"]


@pytest.mark.parametrize("body", [b"", b"<html><body>Down for maintenance</body></html>", b"<!doctype html><p>"])
def test_a_bucket_whose_listing_is_a_page_of_html_does_not_hold_nothing(body, tmp_path):
    answers = [(200, body)] * 2
    with odd_endpoint(objects=THREE, says=lambda _: answers.pop() if answers else None) as endpoint:
        assert values(source(endpoint, state_location=str(tmp_path)))[0] == ["a", "b", "c"]
        assert not answers


@pytest.mark.parametrize("overwrites", [False, True])
@pytest.mark.parametrize(
    ("listed", "sent"),
    [('"{}"'.format, OTHER), ('"{}"'.format, WEAK), (WEAK, '"{}"'.format), (WEAK, WEAK), (OTHER, lambda _: '""')],
    ids=["other", "weak when sent", "weak when listed", "weak", "none"],
)
def test_another_etag_than_the_listed_one_is_no_overwritten_object(listed, sent, overwrites, tmp_path):
    with odd_endpoint(objects=THREE, listed_etag=listed, sent_etag=sent) as endpoint:
        of = source(endpoint, state_location=str(tmp_path), allow_overwrites=overwrites)
        rows, offset = values(of)
        assert rows == ["a", "b", "c"]
        assert values(of, offset)[0] == []


@pytest.mark.parametrize("etag", ['"{}"'.format, OTHER])
def test_an_overwritten_object_is_still_one_where_etags_differ(etag):
    with odd_endpoint(objects={**THREE}, sent_etag=etag) as endpoint:
        of = source(endpoint)
        with coordinating(of) as run:
            end = json.loads(json.dumps(run.latest_offset(INITIAL_OFFSET)))
            (task,) = run.tasks(INITIAL_OFFSET, end)
            endpoint.objects["in/b.txt"] = b"B\n"
            with pytest.raises(ObjectGoneError, match=r"^s3://odd/in/b.txt was overwritten after it was found; "):
                list(of.reader(None).read(task))


@pytest.mark.parametrize("overwrites", [False, True])
def test_an_endpoint_that_sends_what_it_shows_nowhere_ends_the_query_and_skips_nothing(overwrites, tmp_path):
    def answer(request):
        if request.command == "HEAD" or "list-type" in request.path:
            return None
        return 206, b"x\n", ("ETag", '"another"'), ("Content-Range", "bytes 0-1/2")

    with odd_endpoint(objects=THREE, says=answer) as endpoint:
        of = source(endpoint, state_location=str(tmp_path), allow_overwrites=overwrites)
        with pytest.raises(ConnectorError, match=r"^the endpoint lists s3://odd/in/.\.txt .* although nobody has over"):
            values(of)


def decompressing(**said):
    """Return what answers GETs of objects with a thousand lines, of which the endpoint lists a few bytes."""
    lines = b"".join(b"%d\n" % number for number in range(1_000))

    def answer(request):
        if request.command == "HEAD" or "list-type" in request.path:
            return None
        etag = hashlib.md5(THREE["in/a.txt"], usedforsecurity=False).hexdigest() if said["etag"] else ""
        ranged = [("Content-Range", "bytes 0-1/2")] if said["status"] == 206 else []
        return said["status"], lines, ("ETag", f'"{etag}"'), *ranged

    return answer


@pytest.mark.parametrize("etag", [True, False])
@pytest.mark.parametrize("status", [200, 206])
@pytest.mark.parametrize("by_boto3", [False, True])
def test_a_body_that_is_longer_than_listed_ends_the_query(status, etag, by_boto3, tmp_path, monkeypatch):
    if by_boto3:
        proxied(monkeypatch)
    quirks = {} if etag else {"listed_etag": lambda _: "", "sent_etag": lambda _: ""}
    objects = {"in/a.txt": THREE["in/a.txt"]}
    with odd_endpoint(objects=objects, says=decompressing(status=status, etag=etag), **quirks) as endpoint:
        of = source(endpoint, state_location=str(tmp_path), allow_overwrites=True, ignore_corrupt_files=True)
        with pytest.raises(ConnectorError, match=r"^the endpoint (sends|lists) .*s3://odd/in/a.txt") as caught:
            values(of)
        assert "2" in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("what", ["listing", "object"])
def test_a_redirect_is_not_followed(status, what, tmp_path):
    strangers = []

    def take(request):
        strangers.append(dict(request.headers))
        return 200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"

    with stub(take) as stranger:

        def redirect(request):
            if ("list-type" in request.path) == (what == "listing"):
                return status, b"", ("Location", f"{stranger}{request.path}")
            return None

        with odd_endpoint(objects=THREE, says=redirect) as endpoint:
            of = source(endpoint, state_location=str(tmp_path))
            with pytest.raises(
                ConnectorError, match=r"^the endpoint redirects a request .* s3://odd/in.*region"
            ) as caught:
                values(of)
            assert TOKEN not in str(caught.value)
    assert not strangers


def test_archived_objects_end_the_query_with_their_class_or_are_left_out(tmp_path):
    classes = {"in/a.txt": "DEEP_ARCHIVE", "in/b.txt": "GLACIER_IR"}
    with odd_endpoint(objects=THREE, classes={**classes, "in/b.txt": "STANDARD_IA"}) as endpoint:
        with pytest.raises(ConnectorError, match=r"^s3://odd/in/a.txt is archived in the storage class DEEP_ARCHIVE: "):
            values(source(endpoint))
        of = source(endpoint, ignore_archived_files=True, state_location=str(tmp_path))
        assert values(of)[0] == ["b", "c"]
        assert of.listing_rules.objection(Listed(S3Object("in/a.txt", 1, "", 0), "DEEP_ARCHIVE")) == (
            "it is archived in the storage class DEEP_ARCHIVE, and ignoreArchivedFiles is true"
        )


def test_a_requester_pays_for_each_request(tmp_path):
    payers = []
    with odd_endpoint(objects=THREE, says=lambda r: payers.append(r.headers.get("x-amz-request-payer"))) as endpoint:
        of = source(endpoint, requester_pays=True, state_location=str(tmp_path))
        assert values(of)[0] == ["a", "b", "c"]
        assert ObjectStore(of.connection, "odd").find("in/a.txt")
        assert {*payers} == {"requester"}
        payers.clear()
        assert values(source(endpoint))[0] == ["a", "b", "c"]
        assert {*payers} == {None}


FILES, ROWS = 24, 5


@pytest.mark.parametrize(("suffix", "seed"), [("parquet", 1), ("json", 2)])
def test_what_fails_now_and_then_is_read_once_over_several_runs(bucket, suffix, seed):
    for number in range(FILES):
        rows = [(number * ROWS + n, NOON + (number * 7 % FILES) * HOUR + n) for n in range(ROWS)]
        bucket.put_rows(f"{number:02}.{suffix}", rows)
    with faulty(bucket.server, share=0.3, seed=seed) as proxy:
        settings = {"event_time_unit": "ms"} if suffix == "json" else {}
        place = {**bucket.connection, "endpoint": proxy.endpoint, "state_location": f"s3://{bucket.name}/state"}
        of = S3Source(path=bucket.path, file_format=suffix, event_time="column:at", **settings, **place)
        of = of.model_copy(update={"columns": of.arrow_schema})
        ids, offset, more = [], INITIAL_OFFSET, True
        while more:
            with coordinating(of) as run:
                run.bound_run()
                for _ in range(2):
                    end = json.loads(json.dumps(run.latest_offset(offset, Budget(files=7))))
                    more = end != offset
                    for task in run.tasks(offset, end):
                        ids += [n for batch in of.reader(None).read(task) for n in batch.column("id").to_pylist()]
                    offset = end
        assert sorted(ids) == list(range(FILES * ROWS))
        assert {kind for kind in proxy.sent if kind} == set(FAULTS)
