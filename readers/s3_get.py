"""GET of a range of an object without boto3's own, whose hooks, checks and parsing take 1 ms of CPU a request.

The client signs the URL (presigned), and its own session sends it, with its pool, proxies,
certificates and time-outs.  That session is the one thing here that botocore does not promise.
"""

from __future__ import annotations

from typing import Any

__all__ = ["get_range"]

_VALID_S = 3600
_FOUND = (200, 206)


def get_range(client: Any, bucket: str, key: str, headers: dict[str, str]) -> Any:
    """Send one GET, and return what the client's ``get_object`` would for its body and length.

    headers: besides Range at most If-Match: S3 takes them unsigned.

    Returns None for any other answer than the bytes: ask with the client's own then, which knows what
    errors mean, and follows a bucket to its region.  Raises botocore's errors where there is no answer.
    """
    from botocore.awsrequest import AWSRequest
    from botocore.response import StreamingBody

    url = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=_VALID_S)
    request = AWSRequest("GET", url, headers=headers, stream_output=True)
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
