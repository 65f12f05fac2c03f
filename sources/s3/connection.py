"""The options for the connection to a bucket."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, Field, model_validator
from typing_extensions import Self

from tidegate.readers.s3.config import S3ConnectionConfig


def _endpoint(value: Any) -> Any:
    url = urlsplit(str(value))
    if value is not None and (url.scheme not in {"https", "http"} or not url.hostname):
        raise ValueError("expected a URL, such as http://localhost:9000")
    if "@" in url.netloc:
        raise ValueError("a user or a password in the URL is not used; give keys in options of their own")
    return value


class S3ConnectionOptions(BaseModel):
    """The connection to the bucket.

    endpoint: the URL of an endpoint other than AWS.
    region: the region of the bucket; default: the one that boto3 finds.
    access_key, secret_key, session_token: credentials, never shown.  Default: each machine uses those that boto3
        finds there, so no secret travels.
    anonymous: sign no request.
    role_arn: a role to assume.
    requester_pays: pay for the requests, if the bucket's owner does not.
    """

    endpoint: Annotated[str | None, BeforeValidator(_endpoint)] = None
    region: str | None = None
    access_key: Annotated[str | None, Field(repr=False)] = None
    secret_key: Annotated[str | None, Field(repr=False)] = None
    session_token: Annotated[str | None, Field(repr=False)] = None
    anonymous: bool = False
    role_arn: str | None = None
    requester_pays: bool = False

    @model_validator(mode="after")
    def _consistent_credentials(self) -> Self:
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("accessKey and secretKey are set together, or neither is")
        if self.anonymous and self.access_key is not None:
            raise ValueError("anonymous is set, and so is accessKey; set one of them")
        return self

    @property
    def connection(self) -> S3ConnectionConfig:
        """The options as readers and enumerators take them."""
        return S3ConnectionConfig(
            self.endpoint,
            self.region,
            self.access_key,
            self.secret_key,
            self.session_token,
            anonymous=self.anonymous,
            role=self.role_arn,
            requester_pays=self.requester_pays,
        )
