"""Sends the GET of a range of an object by obstore: boto3's Python takes 0.6 ms of CPU a request.

boto3's client names the bucket's address, the certificates and the credentials.  obstore (Rust's object_store) signs
and sends, outside of Python's lock.  It returns an object's bytes or nothing: for any other answer the client sends the
request again.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.readers.s3.config import S3ConnectionConfig

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ClientConfig, S3Credential, S3Store

__all__ = ["get_range"]

# obstore asks again five minutes before the end; botocore renews credentials that end within ten.
_CREDENTIALS_FOR = timedelta(minutes=6)


def get_range(
    config: S3ConnectionConfig, bucket: str, key: str, span: tuple[int, int], version: tuple[int, str], part_bytes: int
) -> Iterator[bytes] | None:
    """Send one GET for the bytes of a version of an object, and return them in parts.

    span: start and end, exclusive; not empty.
    version: its size and its ETag; an empty one is not compared.
    part_bytes: the least that a part has, but for the last.

    Returns None if the bytes cannot be had, for any reason.  Then send the client's own request, which explains errors,
    and follows a bucket to its region.  An answer that breaks off just ends.  Raises botocore's errors if there are no
    credentials, or no such address.
    """
    import obstore
    from obstore.exceptions import BaseError

    process_id = os.getpid()
    if _first_process() != process_id:
        return None  # a fork does not copy the threads that it needs
    store = _store(config, bucket)
    size, etag = version
    options: GetOptions = {"range": span, "if_match": f'"{etag}"'} if etag else {"range": span}
    try:
        answer = obstore.get(store, key, options=options)
    except (BaseError, OSError, ValueError):
        return None
    meta = answer.meta
    # To obstore "/key/" is "key".
    if meta["path"] != key or meta["size"] != size or (etag and (meta["e_tag"] or "").strip('"') != etag):
        return None
    config.note_answer()
    return _parts(answer, part_bytes, span[1] - span[0])


def _parts(answer: Any, part_bytes: int, length: int) -> Iterator[bytes]:
    from obstore.exceptions import BaseError

    try:
        if length <= part_bytes:
            yield answer.bytes().to_bytes()
        else:
            yield from map(bytes, answer.stream(min_chunk_size=part_bytes))
    except BaseError:
        return


@functools.cache
def _first_process() -> int:
    return os.getpid()


@functools.lru_cache(maxsize=64)
def _store(config: S3ConnectionConfig, bucket: str) -> S3Store:
    from obstore.store import S3Store

    client = config.client()
    # By all of boto3's rules for endpoints.
    url: str = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "-"})
    address = url.partition("?")[0].removesuffix("/-")
    return S3Store(
        bucket,
        endpoint=address,
        virtual_hosted_style_request=True,  # the address has the bucket
        region=client.meta.region_name,
        skip_signature=config.anonymous,
        credential_provider=None if config.anonymous else _provider(config),
        client_options=_client_options(config, address),
        retry_config={"max_retries": 0},
    )


def _client_options(config: S3ConnectionConfig, address: str) -> ClientConfig:
    from botocore.httpsession import get_cert_path

    silent_s = config.deadline_s / 8
    options: ClientConfig = {
        "timeout": timedelta(seconds=config.deadline_s),
        "connect_timeout": timedelta(seconds=min(silent_s, 5)),
        "read_timeout": timedelta(seconds=silent_s),
    }
    if address.startswith("http://"):
        options["allow_http"] = True
    else:
        named = Path(get_cert_path(config.trusted()))
        options["root_certificate"] = b"\n".join(
            path.read_bytes() for path in (named.iterdir() if named.is_dir() else [named])
        )
    return options


def _provider(config: S3ConnectionConfig) -> Callable[[], S3Credential]:
    from botocore.exceptions import NoCredentialsError

    def provide() -> S3Credential:
        credentials = config.credentials()
        if credentials is None:
            raise NoCredentialsError
        frozen = credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(timezone.utc) + _CREDENTIALS_FOR,
        }

    return provide
