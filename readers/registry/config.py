"""The configuration of the connection to a schema registry."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tidegate.errors import OptionError


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """A registry with Confluent's REST interface; picklable, and the same on the driver and the executors.

    url: the URL of the registry, or several separated by commas.
    user_info: ``user:password`` for basic authentication; None: without authentication.
    token: a bearer token; None: without it.
    ca_file: PEM file with the certificates of the trusted CAs; None: the system's.
    certificate_file, key_file: PEM files with the client's certificate and its key.
    deadline_s: seconds for a schema and all that it refers to, retries included.

    The user, the password and the token are in neither ``repr`` nor any error.

    Raises OptionError for a malformed URL, and for one with a login, which errors would show.
    """

    url: str
    user_info: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    deadline_s: float = 30.0

    def __post_init__(self) -> None:
        if "@" in self.url:
            raise OptionError(
                "the option 'schema.registry.url' holds a login; put it into 'schema.registry.basic.auth.user.info'"
            )
        for url in self.urls:
            try:
                parts = urlsplit(url)
                is_sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
            except ValueError:  # a port that is no number, or half an IPv6 address
                is_sound = False
            if not is_sound:
                raise OptionError(
                    f"the option 'schema.registry.url' names {url!r}: expected http://host:port or https://host:port"
                )

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of the registry's servers; each has the same schemas."""
        return tuple(url.strip().rstrip("/") for url in self.url.split(","))
