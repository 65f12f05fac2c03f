"""Gets a range of an object by obstore, since boto3 takes 0.6 ms of CPU for each request.

boto3's client names the bucket's address, the certificates and the credentials.  obstore (Rust's object_store) signs
and sends the request, without Python's global lock.  If obstore does not get the bytes, boto3 repeats the request.
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


# obstore requests new credentials five minutes before theirs expire; botocore renews those that expire within ten.
_CREDENTIALS_FOR = timedelta(minutes=6)


def get_range(
    config: S3ConnectionConfig, bucket: str, key: str, span: tuple[int, int], version: tuple[int, str], part_bytes: int
) -> Iterator[bytes] | None:
    """Send one GET for the bytes of a version of an object, and return them in parts.

    span: the start and the end of the range in bytes, end exclusive; not empty.
    version: the size and the ETag of the object; an empty ETag is not compared.
    part_bytes: the minimum size of a part, except the last.

    Returns None if obstore cannot get the bytes, for any reason.  Then repeat the request by boto3's client, which
    explains errors, and follows a bucket to its region.  If the response breaks off, the parts end early.  Raises
    botocore's errors if there are no credentials, or no such address.
    """
    import obstore
    from obstore.exceptions import BaseError

    process_id = os.getpid()
    if _first_process() != process_id:
        return None  # a fork does not copy obstore's threads
    store = _store(config, bucket)
    size, etag = version
    options: GetOptions = {"range": span, "if_match": f'"{etag}"'} if etag else {"range": span}
    try:
        answer = obstore.get(store, key, options=options)
    except (BaseError, OSError, ValueError):
        return None
    meta = answer.meta
    # obstore requests "key" when it is asked for "/key/".
    if meta["path"] != key or meta["size"] != size or (etag and (meta["e_tag"] or "").strip('"') != etag):
        return None
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
    # A signed URL shows the address by all of boto3's rules for endpoints.
    url: str = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "-"})
    address = url.partition("?")[0].removesuffix("/-")
    return S3Store(
        bucket,
        endpoint=address,
        virtual_hosted_style_request=True,  # the address contains the bucket already
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
