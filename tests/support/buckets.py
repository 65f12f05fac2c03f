"""Objects of a real endpoint, laid down through boto3: rows whose event times are known, and whole objects."""

import io
import itertools
import json

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic.alias_generators import to_camel

from tidegate.readers.objects.values import S3Object

_NAMES = (f"tests-{number}" for number in itertools.count())


class Bucket:
    """A new bucket of a server."""

    def __init__(self, server):
        self.server, self.name, self.client = server, next(_NAMES), server.client()
        self.client.create_bucket(Bucket=self.name)

    def close(self):
        self.client.close()

    @property
    def path(self):
        return f"s3://{self.name}/in"

    @property
    def connection(self):
        """The fields by which a source finds the server."""
        return {
            "endpoint": self.server.endpoint,
            "region": self.server.region,
            "access_key": self.server.access_key,
            "secret_key": self.server.secret_key,
        }

    @property
    def options(self):
        """The same fields, as options."""
        return {to_camel(name): value for name, value in self.connection.items()}

    def put(self, key, body):
        self.write(f"in/{key}", body)

    def write(self, key, body):
        """Write an object, also outside of the path."""
        self.client.put_object(Bucket=self.name, Key=key, Body=body)

    def delete(self, key):
        self.client.delete_object(Bucket=self.name, Key=f"in/{key}")

    def keys(self, prefix=""):
        """Return the keys of at most a thousand objects."""
        found = self.client.list_objects_v2(Bucket=self.name, Prefix=prefix).get("Contents", ())
        return [entry["Key"] for entry in found]

    def body(self, key):
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def bodies(self, prefix=""):
        """Return the contents of at most a thousand objects, by their keys."""
        return {key: self.body(key) for key in self.keys(prefix)}

    def put_rows(self, key, rows, **options):
        """Write rows, given as (id, event time in ms), as the suffix of the key says."""
        self.put(key, json_lines(rows) if key.endswith(".json") else parquet(rows, **options))


def json_lines(rows):
    return "".join(json.dumps({"id": n, "at": t}) + "\n" for n, t in rows).encode()


def parquet(rows, **options):
    table = pa.table(
        {
            "id": pa.array([n for n, _ in rows], pa.int64()),
            "at": pa.array([t * 1000 for _, t in rows], pa.timestamp("us", "UTC")),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


class OwnClient:
    """A configuration that gives itself as the client: subclasses override requests, the real client answers others."""

    deadline_s = 10

    def __init__(self, client):
        self._client = client

    def client(self):
        return self

    def __getattr__(self, name):
        return getattr(self._client, name)


BODY = bytes(range(256)) * 40
SECRET = "s3cret"  # noqa: S105 - no such secret exists


def put(store, key, body=BODY):
    store.config.client().put_object(Bucket=store.bucket, Key=key, Body=body)
    (entry,) = store.config.client().list_objects_v2(Bucket=store.bucket, Prefix=key)["Contents"]
    return S3Object(key, entry["Size"], entry["ETag"].strip('"'), int(entry["LastModified"].timestamp() * 1000))
