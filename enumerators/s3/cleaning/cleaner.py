"""Archives or deletes an object after all its rows were read and committed (Spark: cleanSource)."""

from __future__ import annotations

from typing import Any

from tidegate.errors import ObjectGoneError
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.address import S3Address
from tidegate.readers.s3.request import ask_s3
from tidegate.readers.s3.store import ObjectStore

MOST_COPIED_BYTES = 5 << 30  # S3's limit of one CopyObject request
PART_BYTES = 1 << 30


class ObjectCleaner:
    """Archives or deletes objects of a bucket, each in the version that was read.  Thread-safe.

    archive: the folder of archived objects, in which each has its own key; None: they are deleted.
    """

    def __init__(self, store: ObjectStore, archive: S3Address | None = None) -> None:
        self._store, self._archive = store, archive
        self._takes_condition = True

    def clean(self, obj: S3Object) -> bool:
        """Archive or delete an object.  Return True, also if it is gone; False: the key has another version.

        May be called again for the same object, whatever the first call did.  It leaves another version alone: it asks
        the endpoint for the present version, and names the version to delete (``If-Match``).  An endpoint that ignores
        ``If-Match`` deletes a version that was written between these two requests.

        Raises ConnectorError if the endpoint refuses, DeadlineError if it does not answer in time, and OptionError if
        there is no such bucket.
        """
        try:
            if self._archive is not None:
                self._copy(obj, self._archive.within(obj.key))
            there = self._store.find(obj.key)
            if there is not None and _is_other(there.obj, obj):
                return False
            if there is not None:
                self._delete(obj)
        except ObjectGoneError:
            return self._store.find(obj.key) is None
        return True

    def _copy(self, obj: S3Object, target: S3Address) -> None:
        from boto3.s3.transfer import TransferConfig

        settings = TransferConfig(
            multipart_threshold=MOST_COPIED_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
        )

        def copy() -> None:
            self._store.config.client().copy(
                {"Bucket": self._store.bucket, "Key": obj.key},
                target.bucket,
                target.key,
                ExtraArgs={"CopySourceIfMatch": f'"{obj.etag}"'} if obj.etag else {},
                Config=settings,
            )

        self._ask(copy, "archive an object as", str(target))

    def _delete(self, obj: S3Object) -> None:
        def delete() -> None:
            from botocore.exceptions import ClientError

            pinned = {"IfMatch": f'"{obj.etag}"'} if obj.etag and self._takes_condition else {}
            client = self._store.config.client()
            try:
                client.delete_object(Bucket=self._store.bucket, Key=obj.key, **pinned)
            except ClientError as problem:
                if not pinned or problem.response.get("Error", {}).get("Code") != "NotImplemented":
                    raise
                self._takes_condition = False
                client.delete_object(Bucket=self._store.bucket, Key=obj.key)

        self._ask(delete, "delete", self._store.address(obj.key))

    def _ask(self, request: Any, operation: str, target: str) -> None:
        ask_s3(request, operation, target, self._store.config.deadline_s)


def _is_other(there: S3Object, obj: S3Object) -> bool:
    """Return whether the present version is another one.  HeadObject gives whole seconds; a listing may give more."""
    if there.etag and obj.etag:
        return (there.etag, there.size) != (obj.etag, obj.size)
    return (there.size, there.modified_ms // 1000) != (obj.size, obj.modified_ms // 1000)
