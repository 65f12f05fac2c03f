"""GET of a range of an object without boto3's own, whose hooks, checks and parsing take 1 ms of CPU a request.

The client says once where a bucket is, botocore's signer signs, and the client's own session sends,
with its pool, proxies, certificates and time-outs.  That session is the one thing here that botocore
does not promise.
"""

from __future__ import annotations

import functools
from typing import Any

from tidegate.readers.s3_config import S3ConnectionConfig

__all__ = ["get_range"]

_FOUND = (200, 206)


def get_range(config: S3ConnectionConfig, bucket: str, key: str, headers: dict[str, str]) -> Any:
    """Send one GET, and return what the client's ``get_object`` would for its body and length.

    headers: Range, and whatever else the request is to say.

    Returns None for any other answer than the bytes: ask with the client's own then, which knows what
    errors mean, and follows a bucket to its region.  Raises botocore's errors where there is no answer.
    """
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.response import StreamingBody
    from botocore.utils import percent_encode

    client = config.client()
    request = AWSRequest("GET", _address(client, bucket) + percent_encode(key, "/~"), headers, stream_output=True)
    if not config.anonymous:
        credentials = config.credentials()
        if credentials is None:
            return None
        S3SigV4Auth(credentials.get_frozen_credentials(), "s3", client.meta.region_name).add_auth(request)
    answer = client._endpoint.http_session.send(request.prepare())  # noqa: SLF001 - see above
    if answer.status_code not in _FOUND:
        answer.raw.drain_conn()
        answer.raw.release_conn()
        return None
    length = answer.headers.get("Content-Length")
    found = {"Body": StreamingBody(answer.raw, length), "ContentLength": length, "ETag": answer.headers.get("ETag", "")}
    if "Content-Range" in answer.headers:
        found["ContentRange"] = answer.headers["Content-Range"]
    return found


@functools.lru_cache(maxsize=64)
def _address(client: Any, bucket: str) -> str:
    """Return the URL of a bucket, up to where keys begin, by all of boto3's rules for endpoints."""
    url: str = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "-"})
    return url.partition("?")[0].removesuffix("-")
