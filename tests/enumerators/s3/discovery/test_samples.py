"""The objects from which columns are inferred: the first keys, whatever folders they are in."""

import pytest

from tests.support.objects.endpoints import odd_endpoint
from tidegate.enumerators.s3.discovery import samples
from tidegate.enumerators.s3.discovery.samples import find_samples
from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.errors import DeadlineError
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.servers.server import free_ports

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
