"""The addresses of objects and of folders in buckets, and the configuration of a connection to their endpoint."""

from __future__ import annotations

import atexit
import functools
import os
import re
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from tidegate.errors import OptionError

ATTEMPTS = 3  # boto3's attempts for one request; the owner of a Deadline sends the request again after them
MOST_CONNECTIONS = 64  # with boto3's 10, the threads that survey objects would wait for connections
_OF_AWS = (".amazonaws.com", ".amazonaws.com.cn")
PAYER = {"x-amz-request-payer": "requester"}
"""The header of a request that its sender pays for, not the owner of the bucket."""


@dataclass(frozen=True, slots=True)
class S3ConnectionConfig:
    """How to reach an S3 endpoint.  Picklable; the same on the driver and the executors.

    endpoint: the endpoint's URL; None: AWS, or the endpoint that boto3's environment variables name.
    region: the region of the buckets; None: boto3's default chain finds it.
    access_key, secret_key, session_token: the credentials.  None: boto3's default chain finds them on each machine.
        That is safer, since no secret travels then.  Neither ``repr`` nor any error shows them.
    deadline_s: seconds for one operation, retries included.
    requester_pays: the sender of a request pays for it, instead of the bucket's owner.
    """

    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    anonymous: bool = False
    role: str | None = None
    deadline_s: float = 60
    requester_pays: bool = False

    def client(self) -> Any:
        """Return this process's boto3 client of S3, which threads share; nobody closes it.

        The client tries a request three times (boto3's retry mode "standard").  Its read time-out is an eighth of
        ``deadline_s``, so three silent attempts leave time to spare.  Its addresses are path-style for any endpoint
        but AWS.  It renews temporary credentials, such as those of a role.

        Raises botocore's errors, such as PartialCredentialsError or ProfileNotFound.  Sends nothing yet, except to find
        credentials.
        """
        return self._shared_client("s3")

    def new_client(self) -> Any:
        """Return a client like that of ``client``, for a caller that changes and closes it."""
        with _creation(os.getpid()):
            return _new_client(self, "s3")

    def queue_client(self) -> Any:
        """Return a client of SQS in the same way; ``endpoint`` is the endpoint of SQS, and it signs all requests."""
        return self._shared_client("sqs")

    def credentials(self) -> Any:
        """Return the credentials of the client, as botocore's object.

        Called before every request, because credentials may be renewed.
        """
        process_id = os.getpid()
        with _creation(process_id):
            return _session(self, process_id).get_credentials()

    def access(self) -> dict[str, str]:
        """Return what another library needs to reach buckets as the client does, among it secrets.

        That is the ``region``, and unless there is none, the ``endpoint``, which is not AWS, and ``key``, ``secret``
        and ``token``.
        """
        client = self.client()
        found = {"region": client.meta.region_name or "us-east-1"}
        if not client.meta.endpoint_url.endswith(_OF_AWS):
            found["endpoint"] = client.meta.endpoint_url
        if (credentials := self.credentials()) is not None:
            frozen = credentials.get_frozen_credentials()
            found |= {"key": frozen.access_key, "secret": frozen.secret_key}
            found |= {"token": frozen.token} if frozen.token else {}
        return found

    def trusted(self) -> Any:
        """Return the certificates that the client trusts: a file, a folder, or True for botocore's own."""
        process_id = os.getpid()
        with _creation(process_id):
            named = _session(self, process_id).get_config_variable("ca_bundle")
        return named or os.environ.get("REQUESTS_CA_BUNDLE") or True

    def _shared_client(self, service: str) -> Any:
        process_id = os.getpid()
        with _creation(process_id):
            return _client(self, service, process_id)


# A Python worker may be forked while another thread holds the lock, so each process has its own lock and clients.
@functools.cache
def _creation(_process_id: int) -> threading.Lock:
    return threading.Lock()


@functools.cache
def _client(config: S3ConnectionConfig, service: str, _process_id: int) -> Any:
    client = _new_client(config, service)
    atexit.register(client.close)
    return client


def _new_client(config: S3ConnectionConfig, service: str) -> Any:
    from botocore import UNSIGNED
    from botocore.config import Config

    silent_s = config.deadline_s / 8
    settings = Config(
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        connect_timeout=min(silent_s, 5),
        read_timeout=silent_s,
        max_pool_connections=MOST_CONNECTIONS,
    )
    if service == "s3":
        settings = settings.merge(
            Config(
                # S3's checksums cover whole objects, and tidegate requests ranges.
                response_checksum_validation="when_required",
                request_checksum_calculation="when_required",
                # By default, botocore signs URLs by signature version 2 for regions that still accept it.
                signature_version=UNSIGNED if config.anonymous else "s3v4",
            )
        )
    client = _boto3_session(config, os.getpid()).client(service, endpoint_url=config.endpoint, config=settings)
    if service == "s3" and not client.meta.endpoint_url.endswith(_OF_AWS):
        client.meta.events.register("before-send.s3.HeadBucket", _no_other_region)
    if service == "s3" and config.requester_pays:
        client.meta.events.register("before-call.s3", lambda params, **_: params["headers"].update(PAYER))
    return client


def _no_other_region(request: Any, **_: object) -> Any:
    """Answer that there is no such bucket.

    After a redirect, botocore asks so for the region of a bucket, and for ever if this request is redirected as well.
    Only AWS has other regions.
    """
    from botocore.awsrequest import AWSResponse

    return AWSResponse(request.url, HTTPStatus.NOT_FOUND, {}, SimpleNamespace(stream=lambda: ()))


@functools.cache
def _boto3_session(config: S3ConnectionConfig, process_id: int) -> Any:
    """Return this process's boto3 session for all services: a second one would extend botocore's clients twice."""
    import boto3

    return boto3.session.Session(botocore_session=_session(config, process_id), region_name=config.region)


@functools.cache
def _session(config: S3ConnectionConfig, _process_id: int) -> Any:
    """Return this process's session of botocore with the credentials of ``config``."""
    from botocore.credentials import AssumeRoleCredentialFetcher, CredentialResolver
    from botocore.session import Session

    session = Session()
    if config.access_key is not None:
        session.set_credentials(config.access_key, config.secret_key, config.session_token)
    if config.role is None or config.anonymous:
        return session
    create = functools.partial(session.create_client, region_name=config.region)
    fetcher = AssumeRoleCredentialFetcher(create, _found_credentials(session), config.role)
    assumed = Session()
    assumed.register_component("credential_provider", CredentialResolver([_assumed_role(fetcher)]))
    return assumed


def _found_credentials(session: Any) -> Any:
    from botocore.exceptions import NoCredentialsError

    credentials = session.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    return credentials


def _assumed_role(fetcher: Any) -> Any:
    from botocore.credentials import CredentialProvider, DeferredRefreshableCredentials

    class AssumedRole(CredentialProvider):  # type: ignore[misc]  # botocore ships no types
        METHOD = "assume-role"

        def load(self) -> Any:
            return DeferredRefreshableCredentials(fetcher.fetch_credentials, self.METHOD)

    return AssumedRole()


_OF_A_SCHEME = re.compile(r"[^/]{2,}:/")  # a letter alone is a drive
_SCHEMES = {"s3", "s3a", "s3n"}  # Hadoop's s3a and s3n mean the same as s3


class S3Address(NamedTuple):
    """A place in S3, ``s3://bucket/key``: an object, or a folder's prefix, without a leading ``/``."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def folder(self) -> S3Address:
        """The same folder without a final ``/``."""
        return self._replace(key=self.key.rstrip("/"))

    def within(self, key: str) -> S3Address:
        """Return the place of a key in a folder without a final ``/``."""
        return self._replace(key=f"{self.key}/{key}" if self.key else key)


def s3_address(text: str) -> S3Address | None:
    """Parse an address; return None for a text that is not one, such as a path or a URL.

    Raises OptionError for an address with a login, which errors would show, or with a host.
    """
    # A key may hold a ``?``, which would begin a query in a URL.
    scheme, separator, place = text.partition("://")
    if not separator or scheme.lower() not in _SCHEMES:
        return None
    bucket, _, key = place.partition("/")
    # Hadoop once took s3n://ID:SECRET@bucket.  A secret may hold a slash.
    if not bucket.lower().startswith("arn:"):
        if "@" in bucket or (":" in bucket and "@" in key):
            raise OptionError("a login in an address of S3 is not used; keep it where boto3 finds it")
        if ":" in bucket:
            raise OptionError("an address of S3 begins with the bucket; set AWS_ENDPOINT_URL for another server")
    return S3Address(bucket, key.lstrip("/"))


def is_local(text: str) -> bool:
    """Return whether a text is a path or a ``file:`` URL, and not of another file system, such as ``dbfs:/x``."""
    if text.lower().startswith("file:"):
        return True
    return bool(text.strip()) and "://" not in text and _OF_A_SCHEME.match(text) is None


def local_path(text: str) -> Path:
    """Return the folder of a path or of a ``file:`` URL."""
    if text.lower().startswith("file:"):
        return Path(unquote(urlsplit(text).path))
    return Path(text).expanduser().absolute()
