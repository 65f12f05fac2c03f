"""Listings of a real endpoint against a walk through its folder, and the objects from which columns are inferred."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.command import await_that
from tests.support.objects.endpoints import LISTING, odd_endpoint
from tests.support.servers.stub import stub
from tidegate.enumerators.s3.discovery import listing as object_listing
from tidegate.enumerators.s3.discovery.listing import ObjectListing
from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.errors import ConnectorError, DeadlineError, OptionError
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.listing import Listed
from tidegate.servers.server import free_ports
from tidegate.sources.s3 import first_objects as samples
from tidegate.sources.s3.first_objects import find_samples

PATTERNS = ["*", "", "a*", "*.json", "a?c", "[ab]*", "[!ab]*", "[a-c]?", "a.c", "*[.]*", "a+c", "(a|b)", "^a$", "a[*]c"]
PATTERNS += ["a{b,c}", "{a,b}{c,d*}", "{a*,{b,c}d}", "a,c", "a}"]
ODD = ["d e", "é", "日本", "100%41", "a+ c", "a&b=c?d#e", "<\"q'>"]
names = st.sampled_from(["a", "b", "b!", "c=1", "_hidden", "_x=1", ".dot", "z.json", *ODD])
trees = st.sets(st.lists(names, min_size=1, max_size=4).map("/".join), max_size=14)


def emptied(server):
    folder = server.folder / "objects"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@pytest.fixture
def objects(server):
    return emptied(server)


@pytest.fixture
def limits(request, monkeypatch):
    names = ("FEW_FOLDERS", "MANY_FOLDERS", "MOST_GROUPS", "KEYS_PER_PAGE")
    for name, limit in zip(names, request.param, strict=True):
        monkeypatch.setattr(object_listing, name, limit)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "tidegate-listing"]


def lay_down(objects, keys):
    for key in keys:
        path = objects / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(key.encode())


def listed(config, **rules) -> list[S3Object]:
    pages = list(ObjectListing(config, "objects", ListingRules(**rules)).pages())
    assert all(pages)
    return [obj for page in pages for obj in page]


def keys(config, **rules) -> list[str]:
    return sorted(obj.key for obj in listed(config, **rules))


def no_folders_in_files(tree):
    """Return the keys that are no folder of another key, because all of them are files."""
    return sorted(key for key in tree if not any(other.startswith(f"{key}/") for other in tree))


def is_data(key: str, prefix: str, recursive: bool) -> bool:
    if not key.startswith(prefix):
        return False
    parts = key[len(prefix) :].split("/")
    hidden = any(part[0] == "." or (part[0] == "_" and "=" not in part) for part in parts)
    return not hidden and (recursive or len(parts) == 1 or "=" in parts[0])


@pytest.mark.parametrize(
    "limits", [(8, 256, 32, 1_000), (8, 1, 2, 1_000), (1, 2, 1, 2), (1, 256, 32, 1)], ids=str, indirect=True
)
@pytest.mark.usefixtures("limits")
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees, recursive=st.booleans(), data=st.data())
def test_every_object_is_listed_once_however_the_folders_are_shared_out(server, config, tree, recursive, data):
    folder = emptied(server)
    there = no_folders_in_files(tree)
    lay_down(folder, there)
    prefix = data.draw(st.sampled_from(["", *{f"{key.split('/')[0]}/" for key in there if "/" in key}]))
    expected = [key for key in there if is_data(key, prefix, recursive)]
    assert keys(config, prefix=prefix, recursive=recursive) == expected


def test_an_object_comes_with_its_size_time_and_etag(server, config, objects):
    lay_down(objects, ["laid"])
    os.utime(objects / "laid", (1_600_000_000.7, 1_600_000_000.7))
    client = server.client()
    etag = client.put_object(Bucket="objects", Key="put", Body=b"content")["ETag"]
    client.close()
    os.utime(objects / "put", (1_500_000_000, 1_500_000_000))
    assert sorted(listed(config)) == [
        S3Object("laid", 4, "", 1_600_000_000_000),
        S3Object("put", 7, etag.strip('"'), 1_500_000_000_000),
    ]


@pytest.mark.parametrize(
    ("key", "size", "taken"),
    [
        ("in/a", 0, True),
        ("in/", 0, False),
        ("in/sub/", 0, False),
        ("in/sub_$folder$", 0, False),
        ("in/sub_$folder$", 1, True),
        ("in/_SUCCESS", 0, False),
        ("in/_metadata", 9, False),
        ("in/_delta_log/0.json", 9, False),
        ("in/_day=1/a", 9, True),
        ("in/.a", 9, False),
        ("in/.spark-staging=1/a", 9, False),
        ("in/a._COPYING_", 9, False),
        ("in/sub/a", 9, True),
        ("in/=1/a", 9, True),
    ],
)
def test_what_sparks_file_source_leaves_out_is_no_data(key, size, taken):
    assert ListingRules("in/").takes(Listed(S3Object(key, size, "", 0))) == taken


def test_the_folders_of_the_prefix_may_have_any_name():
    assert ListingRules("_raw/.in/").takes(Listed(S3Object("_raw/.in/a", 1, "", 0)))
    assert not ListingRules("raw/_").takes(Listed(S3Object("raw/_a", 1, "", 0)))


def test_without_recursion_only_partitions_are_gone_into_and_all_below_them():
    rules = ListingRules("in/", recursive=False)
    for key, taken in {
        "in/a": True,
        "in/k=1/j=2/a": True,
        "in/k=1/sub/a": True,
        "in/k=1/.sub/a": False,
        "in/sub/k=1/a": False,
        "in/=1/a": False,
        "in/k=/a": False,
    }.items():
        assert rules.takes(Listed(S3Object(key, 1, "", 0))) == taken
        assert rules.enters(key[: key.rfind("/") + 1]) == taken


def test_times_lie_between_the_limits_both_exclusive():
    rules = ListingRules(modified_after_ms=10, modified_before_ms=13)
    assert [ms for ms in range(20) if rules.takes(Listed(S3Object("a", 1, "", ms)))] == [11, 12]


@pytest.mark.parametrize("glob", PATTERNS)
def test_a_pattern_means_what_hadoop_says(glob):
    alternatives = {
        "a{b,c}": ["ab", "ac"],
        "{a,b}{c,d*}": ["ac", "ad*", "bc", "bd*"],
        "{a*,{b,c}d}": ["a*", "bd", "cd"],
    }
    rules = ListingRules(path_glob_filter=glob)
    texts = ["".join(text) for length in range(1, 5) for text in product("abcd.*", repeat=length)]
    for name in [*texts, "a.json", "ajson", "a+c", "aac", "(a|b)", "^a$", "a,c", "a}", "a b\nc"]:
        if name[0] not in "._":
            expected = any(fnmatchcase(name, plain) for plain in alternatives.get(glob, [glob]))
            assert rules.takes(Listed(S3Object(f"in/{name}", 1, "", 0))) == expected, name


def test_a_pattern_may_hold_what_fnmatch_cannot_say():
    def matches(glob, name):
        return ListingRules(path_glob_filter=glob).takes(Listed(S3Object(name, 1, "", 0)))

    assert matches("[^a]b", "cb")
    assert not matches("[^a]b", "ab")
    assert matches("{a,}b", "b")


@pytest.mark.parametrize("glob", ["{a,b", "a\\", "[ab", "{a,[}b", "a[]", "a[!]", "[^]"])
def test_a_pattern_that_is_none_is_refused(glob):
    with pytest.raises(OptionError, match=r"^pathGlobFilter is .*, which is not a pattern: "):
        ListingRules(path_glob_filter=glob)


def test_a_bucket_that_is_not_there_is_named(config):
    with pytest.raises(OptionError, match="'no-such-bucket'"):
        next(ObjectListing(config, "no-such-bucket", ListingRules()).pages())
    with pytest.raises(OptionError, match="No Bucket"):
        next(ObjectListing(config, "No Bucket", ListingRules()).pages())


def test_keys_that_are_refused_are_not_shown(server):
    config = S3ConnectionConfig(server.endpoint, server.region, "stranger", "their-secret", deadline_s=10)
    with pytest.raises(ConnectorError, match="objects") as caught:
        next(ObjectListing(config, "objects", ListingRules("in/")).pages())
    assert "their-secret" not in str(caught.value)


@contextmanager
def endless(*failures):
    """Serve an endless folder that fails as a test wants; yield its configuration, the failures and the requests.

    failures: statuses of the answers, or None.
    """
    left, asked = list(failures), []

    def answer(request):
        if left and (failure := left.pop(0)):
            return failure, b"<Error><Code>SlowDown</Code></Error>"
        asked.append(request.path)
        body = (
            f"<Contents><Key>{len(asked):09}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified>"
            f"</Contents><NextContinuationToken>{len(asked)}</NextContinuationToken>"
        )
        return 200, LISTING.format("true", body).encode()

    with stub(answer) as url:
        yield S3ConnectionConfig(url, "us-east-1", "any", "any", deadline_s=10), left, asked


def test_a_page_that_fails_for_a_while_is_asked_for_again():
    with endless(None, 503, 500) as (config, _, _):
        pages = ObjectListing(config, "objects", ListingRules()).pages()
        assert [obj.key for _ in range(3) for obj in next(pages)] == ["000000001", "000000002", "000000003"]
        pages.close()


def test_a_page_that_fails_until_the_deadline_ends_the_listing():
    with endless(None, *[503] * 1_000) as (config, _, _):
        pages = ObjectListing(replace(config, deadline_s=2), "objects", ListingRules()).pages()
        with pytest.raises(DeadlineError, match=r"^cannot list s3://objects/ within 2 s: .* SlowDown$"):
            list(pages)


def test_the_next_page_of_a_folder_is_requested_ahead_and_no_more_of_them():
    with endless() as (config, _, asked):
        pages = ObjectListing(config, "objects", ListingRules()).pages()
        for taken in (1, 2, 3):
            next(pages)
            await_that(lambda taken=taken: len(asked) == taken + 1)
        pages.close()
        assert len(asked) == 4


def test_closing_does_not_wait_for_the_deadline():
    with endless(None, *[503] * 1_000) as (config, left, _):
        pages = ObjectListing(config, "objects", ListingRules()).pages()
        next(pages)
        await_that(lambda: len(left) < 1_000)
        pages.close()
        assert len(left) > 900


KEYS = [
    "in/a/1.json",
    "in/a=1/b=2/1.json",
    "in/a=1/b=2/2.json",
    "in/a=1/b=3/_hidden/x.json",
    "in/a=1/b=3/empty.json",
    "in/a=1/z.json",
    "in/a=2/1.json",
    "in/a.json",
    "in/_SUCCESS",
    "inside/1.json",
]


def sampled(s3_config, bucket, most, **rules):
    samples = find_samples(s3_config, bucket.name, ListingRules("in/", **rules), most)
    return [obj.key for obj in samples.objects], samples.folders


def test_samples_are_the_first_keys_that_are_data_and_hold_bytes(bucket, s3_config):
    for key in KEYS:
        bucket.write(key, b"" if "empty" in key else b"{}")
    data = sorted(key for key in KEYS if key.startswith("in/") and "_" not in key and "empty" not in key)
    folders = ["in/a/", "in/a=1/", "in/a=2/", "in/a=1/b=2/", "in/a=1/b=3/"]
    assert sampled(s3_config, bucket, 100, recursive=True) == (data, folders)
    inside = [key for key in data if not key.startswith("in/a/")]
    assert sampled(s3_config, bucket, 100, recursive=False) == (inside, folders[1:])
    assert sampled(s3_config, bucket, 2, recursive=False) == (inside[:2], [*folders[1:3], *folders[3:]])
    # Later folders are not listed, but the folders beside the visited ones are seen.
    assert sampled(s3_config, bucket, 1, recursive=False) == (["in/a.json"], ["in/a=1/", "in/a=2/"])


def test_an_empty_folder_is_no_error_where_only_the_folder_may_be_listed():
    def refuse(request):
        is_within = "prefix=in%2F" in request.path  # as a policy with a condition on s3:prefix does
        return None if is_within else (403, b"<Error><Code>AccessDenied</Code></Error>")

    with odd_endpoint(says=refuse) as endpoint:
        samples = find_samples(endpoint.config, "odd", ListingRules("in/"), 1)
        assert (samples.objects, samples.left_out) == ([], None)
        assert endpoint.requests[-1][2]["prefix"] == "in"


def test_an_endpoint_that_is_not_there_is_an_error_soon(monkeypatch):
    monkeypatch.setattr(samples, "FIRST_CONTACT_S", 0.5)
    config = S3ConnectionConfig(f"http://127.0.0.1:{free_ports(1)[0]}", "us-east-1", "any", "any")
    with pytest.raises(DeadlineError, match=r"^cannot list .* within 0\.5 s: Could not connect to the endpoint"):
        find_samples(config, "bucket", ListingRules("in/"), 1)
