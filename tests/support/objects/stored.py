"""Objects that a test puts into the bucket ``data``."""

from tidegate.readers.objects.values import S3Object

BODY = bytes(range(256)) * 40
SECRET = "s3cret"  # noqa: S105 - no such secret exists


def put(store, key, body=BODY):
    store.config.client().put_object(Bucket=store.bucket, Key=key, Body=body)
    (entry,) = store.config.client().list_objects_v2(Bucket=store.bucket, Prefix=key)["Contents"]
    return S3Object(key, entry["Size"], entry["ETag"].strip('"'), int(entry["LastModified"].timestamp() * 1000))
