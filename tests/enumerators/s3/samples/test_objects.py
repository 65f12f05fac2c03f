"""The objects that columns are inferred from: the first keys, whatever folders they are in."""

from tidegate.enumerators.s3.discovery.listing_rules import ListingRules
from tidegate.enumerators.s3.samples.objects import find_samples

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


def found(s3_config, bucket, most, **rules):
    samples = find_samples(s3_config, bucket.name, ListingRules("in/", **rules), most)
    return [each.key for each in samples.objects], samples.folders


def test_samples_are_the_first_keys_that_are_data_and_hold_bytes(bucket, s3_config):
    for key in KEYS:
        bucket.client.put_object(Bucket=bucket.name, Key=key, Body=b"" if "empty" in key else b"{}")
    data = sorted(key for key in KEYS if key.startswith("in/") and "_" not in key and "empty" not in key)
    folders = ["in/a/", "in/a=1/", "in/a=2/", "in/a=1/b=2/", "in/a=1/b=3/"]
    assert found(s3_config, bucket, 100, recursive=True) == (data, folders)
    inside = [key for key in data if not key.startswith("in/a/")]
    assert found(s3_config, bucket, 100, recursive=False) == (inside, folders[1:])
    assert found(s3_config, bucket, 2, recursive=False) == (inside[:2], [*folders[1:3], *folders[3:]])
    # Folders that nobody came to are not looked into, but those beside them are seen.
    assert found(s3_config, bucket, 1, recursive=False) == (["in/a.json"], ["in/a=1/", "in/a=2/"])
