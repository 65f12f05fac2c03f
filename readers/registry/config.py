"""The configuration of the connection to a schema registry."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.errors import OptionError

__all__ = ["RegistryConfig"]


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """A registry with Confluent's REST interface; picklable, and the same on the driver and the executors.

    url: the URL of the registry, or several separated by commas.
    user_info: ``user:password`` for basic authentication; None: without authentication.
    token: a bearer token; None: without it.
    ca_file: PEM file with the certificates of the trusted CAs; None: the system's.
    certificate_file, key_file: PEM files with the client's certificate and its key; None: no certificate.
    deadline_s: seconds for one request, retries included.

    The user, the password and the token are in neither ``repr`` nor any error.

    Raises OptionError for a URL with a login, which errors would show.
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
