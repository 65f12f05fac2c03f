"""Opens a socket to a broker: TLS, versions and the login.

kafka-python provides the SASL mechanisms and the messages.  Its own connections (``kafka.net``, as of 3.0) do not keep
our promises:

- A refusal that arrives together with the close is lost, so the same login is sent again.
- Its log shows logins and tokens.

Two of its mechanisms lack details of Kafka's Java client: Kerberos (GSSAPI) takes the key table or the ticket cache
that a login module names; SCRAM (RFC 5802, RFC 7677) escapes names, knows delegation tokens, and refuses too few
iterations.
"""

from __future__ import annotations

import hashlib
import io
import re
import ssl
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafka import __version__ as kafka_python_version
from kafka import errors as kafka_errors

from tidegate.errors import CorruptDataError, OptionError, with_extra
from tidegate.kafka_private import (
    ApiVersionsRequest,
    BrokerVersionData,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    SaslMechanismGSSAPI,
    SaslMechanismOAuth,
    SaslMechanismScram,
    ScramClient,
    get_ip_port_afi,
    get_sasl_mechanism,
)
from tidegate.readers.kafka.wire.frames import LARGEST_FRAME, FrameSocket, connected, remaining_s
from tidegate.readers.kafka.wire.tls import tls_context
from tidegate.readers.kafka.wire.tokens import TokenError, TokenProvider

FEWEST_ITERATIONS = 4096
_MAY_HEAL = {2529639068, 2529639132}  # KRB5_KDC_UNREACH, KRB5_REALM_CANT_RESOLVE, without a sign


class KerberosMechanism(SaslMechanismGSSAPI):  # type: ignore[misc] # kafka-python has no types
    """kafka-python's dialogue, with another constructor, because the original knows only the default ticket.

    Raises OptionError if the package gssapi is missing, and TokenError for a ticket that is not given.
    """

    def __init__(self, **config: Any) -> None:
        try:
            import gssapi
        except (ImportError, OSError):
            raise OptionError(
                "the option 'kafka.sasl.mechanism' is GSSAPI, but the package gssapi is missing; it also needs the "
                f"Kerberos libraries of the system: install {with_extra('kerberos')}"
            ) from None
        self._is_done = self._is_authenticated = False
        self.auth_id = f"{config['sasl_kerberos_service_name']}@{config['host']}"
        service = gssapi.Name(self.auth_id, gssapi.NameType.hostbased_service)
        self.gssapi_name = service.canonicalize(gssapi.MechType.kerberos)
        try:
            credentials = _credentials(gssapi, config)
            self._client_ctx: Any = gssapi.SecurityContext(name=self.gssapi_name, creds=credentials, usage="initiate")
            self._next_token: Any = self._client_ctx.step(None)
        except gssapi.exceptions.GSSError as error:
            reason = re.sub(r"^.*Minor \(\d+\): ", "", str(error), flags=re.DOTALL)
            sentence = f"Kerberos gives no ticket for {self.auth_id}{_by_key(config)}: {reason}"
            raise TokenError(sentence, may_heal=error.min_code & 0xFFFFFFFF in _MAY_HEAL) from None


def _credentials(gssapi: Any, config: dict[str, Any]) -> Any:
    """Return the credentials of the login module; None: use those of the process."""
    keytab, principal = config.get("sasl_kerberos_keytab"), config.get("sasl_kerberos_principal")
    store = {
        "client_keytab": keytab,
        "ccache": config.get("sasl_kerberos_ticket_cache") or _own_cache(keytab, principal),
    }
    store = {name: place for name, place in store.items() if place}
    if not store and principal is None:
        return None
    name = None if principal is None else gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    return gssapi.Credentials(name=name, store=store or None, usage="initiate")


def _by_key(config: dict[str, Any]) -> str:
    """Return what Kerberos does not say of a key table: its own reason is that there is no ticket yet."""
    keytab, principal = config.get("sasl_kerberos_keytab"), config.get("sasl_kerberos_principal")
    if not keytab:
        return ""
    if not Path(keytab.removeprefix("FILE:")).exists():
        return f" with the key table {keytab!r}, which does not exist"
    return f" with the key table {keytab!r}" + ("" if principal is None else f" and the principal {principal!r}")


def _own_cache(keytab: str | None, principal: str | None) -> str | None:
    """Return a place in memory for the tickets of a key table.

    Otherwise they would go into the cache of the process, and any ticket there would be used, whatever the key.
    """
    if not keytab:
        return None
    return f"MEMORY:tidegate-{hashlib.sha256(repr((keytab, principal)).encode()).hexdigest()[:16]}"


class WeakLoginError(Exception):
    """The other side asks for a login that is too easy to break."""


class ScramMechanism(SaslMechanismScram):  # type: ignore[misc] # kafka-python has no types
    """A login by SCRAM; with ``sasl_delegation_token``, by a delegation token (KIP-48)."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._scram_client = _Client(
            config["sasl_plain_username"],
            config["sasl_plain_password"],
            config["sasl_mechanism"],
            b",tokenauth=true" if config.get("sasl_delegation_token") else b"",
        )


class _Client(ScramClient):  # type: ignore[misc]
    def __init__(self, user: str, password: str, mechanism: str, extensions: bytes) -> None:
        # These two characters have a meaning in the messages.
        super().__init__(user.replace("=", "=3D").replace(",", "=2C"), password, mechanism)
        self._extensions = extensions

    def first_message(self) -> bytes:
        bare = b"n=" + self.user + b",r=" + self.nonce + self._extensions
        self.auth_message += bare
        message: bytes = b"n,," + bare
        return message

    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        if iterations < FEWEST_ITERATIONS:
            raise WeakLoginError(
                f"it asks for {iterations} iterations of SCRAM, and at least {FEWEST_ITERATIONS} are safe (RFC 7677)"
            )
        super().create_salted_password(salt, iterations)


SETUP_TIMEOUT_MS = 10_000  # as in Java
LONGEST_HEADER = 1 << 10
CORRELATION = struct.Struct(">i")
_LOGIN_OFFERED = (kafka_errors.NoError.errno, kafka_errors.UnsupportedSaslMechanismError.errno)


def open_frames(
    address: str, properties: Mapping[str, Any], timeout_s: float, context: ssl.SSLContext | None
) -> FrameSocket:
    """Connect to ``host:port``, with TLS if there is a context.

    Raises OSError (including ssl.SSLError), and ValueError for an invalid address.
    """
    deadline = time.monotonic() + timeout_s
    host, port, _ = get_ip_port_afi(address)
    sock = connected(host, port, deadline)
    try:
        if context is not None:
            name = host.rstrip(".")
            sock = context.wrap_socket(sock, server_hostname=name, do_handshake_on_connect=False)
            sock.settimeout(remaining_s(deadline))
            sock.do_handshake()
        return FrameSocket(sock, properties.get("receive_message_max_bytes", LARGEST_FRAME))
    except BaseException:
        sock.close()
        raise


def log_in(address: str, properties: Mapping[str, Any], timeout_s: float) -> tuple[FrameSocket, BrokerVersionData]:
    """Connect, ask for the versions that the broker supports, and log in if ``security_protocol`` says so.

    The broker's first answer may take ``socket_connection_setup_timeout_ms``; its answer to a login may take all of
    ``timeout_s``.  A broker that limits the life of a login (KIP-368) closes the connection, and the next one has a new
    login.  Raises the errors of :func:`open_frames`, those of SASL from kafka-python, CorruptDataError and
    FrameTooLargeError.
    """
    began = time.monotonic()
    setup_s = properties.get("socket_connection_setup_timeout_ms", SETUP_TIMEOUT_MS) / 1000
    deadline, soon = began + timeout_s, began + min(timeout_s, setup_s)
    context = tls_context(properties)
    frames = open_frames(address, properties, remaining_s(soon), context)
    try:
        ask = _Asking(frames, properties.get("client_id", "tidegate"))
        versions = _versions(ask, soon)
        if properties.get("security_protocol", "PLAINTEXT").startswith("SASL_"):
            _authenticate(ask, versions, address, properties, soon, deadline)
    except BaseException:
        frames.close()
        raise
    return frames, versions


def decode_response(request: Any, frame: memoryview) -> Any:
    """Return kafka-python's response to a request that was sent; ``frame`` is the answer.

    Raises CorruptDataError for anything else.
    """
    try:
        kind, head = request.header.get_response_class(), io.BytesIO(frame[:LONGEST_HEADER])
        kind.parse_header(head)  # kafka-python's own way copies the whole answer for it
        answer = kind.decode(frame[head.tell() :])
        for topic in [*getattr(answer, "brokers", ()), *getattr(answer, "topics", ())]:
            iter(getattr(topic, "partitions", ()))  # kafka-python takes a null for any array
    except Exception as error:  # a decoder may raise anything for other bytes
        raise CorruptDataError(f"the answer to Kafka's {type(request).__name__} cannot be decoded") from error
    return answer


class _Asking:
    """Sends requests one by one, before there is a connection for many."""

    def __init__(self, frames: FrameSocket, client_id: str) -> None:
        self.frames = frames
        self._client_id = client_id
        self._last_id = 0

    def __call__(self, request: Any, deadline: float) -> Any:
        self._last_id += 1
        request.with_header(correlation_id=self._last_id, client_id=self._client_id)
        # A broker that closes the connection may have sent the reason before.
        with suppress(ConnectionError, ssl.SSLEOFError):
            self.frames.send(request.encode(framed=True, header=True), deadline)
        frame = self.frames.receive(deadline)
        if CORRELATION.unpack_from(frame)[0] != self._last_id:
            raise CorruptDataError("it answered something that was not asked")
        return decode_response(request, frame)


def _versions(ask: _Asking, deadline: float) -> BrokerVersionData:
    """Ask for the versions of all requests; an older broker answers with its own versions of this request."""
    version = ApiVersionsRequest.max_version
    while True:
        request = ApiVersionsRequest(
            version=version, client_software_name="kafka-python", client_software_version=kafka_python_version
        )
        answer = ask(request, deadline)
        versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        if answer.error_code == kafka_errors.NoError.errno:
            return BrokerVersionData(api_versions=versions)
        _, newest = versions.get(request.API_KEY, (0, 0))
        if answer.error_code != kafka_errors.UnsupportedVersionError.errno or newest >= version:
            raise kafka_errors.for_code(answer.error_code)
        version = newest


def _authenticate(
    ask: _Asking, versions: BrokerVersionData, address: str, properties: Mapping[str, Any], soon: float, deadline: float
) -> None:
    name = properties["sasl_mechanism"]
    offered = ask(_greeting(name, versions), soon)
    if offered.error_code not in _LOGIN_OFFERED:
        raise kafka_errors.for_code(offered.error_code)("it asks for no login")
    if name not in offered.mechanisms:
        raise kafka_errors.UnsupportedSaslMechanismError(f"it offers {', '.join(offered.mechanisms) or 'none'}")
    host, _, _ = get_ip_port_afi(address)
    mechanism = _mechanism(name, host, properties, deadline)
    while not mechanism.is_done():
        answer = ask(_authenticating(mechanism.auth_bytes(), versions), deadline)
        if answer.error_code != kafka_errors.NoError.errno:
            if name == "OAUTHBEARER":
                mechanism.token_provider.forget()
            raise kafka_errors.SaslAuthenticationFailedError(answer.error_message)
        mechanism.receive(answer.auth_bytes)
    if not mechanism.is_authenticated():
        raise kafka_errors.SaslAuthenticationFailedError(f"{name} did not come to an end")


def _mechanism(name: str, host: str, properties: Mapping[str, Any], deadline: float) -> Any:
    # Without the protocol: kafka-python would warn of a login in the clear at each connection.
    settings = {**_SASL_DEFAULTS, **properties, "host": host, "security_protocol": None}
    if name == "OAUTHBEARER":
        return SaslMechanismOAuth(sasl_oauth_token_provider=TokenProvider(properties, deadline))
    if name == "GSSAPI":
        return KerberosMechanism(**settings)
    return (ScramMechanism if name.startswith("SCRAM-") else get_sasl_mechanism(name))(**settings)


_SASL_DEFAULTS: dict[str, Any] = {
    "sasl_plain_username": None,
    "sasl_plain_password": None,
    "sasl_kerberos_service_name": "kafka",
}


def _greeting(mechanism: str, versions: BrokerVersionData) -> Any:
    request = SaslHandshakeRequest(mechanism=mechanism)
    # Brokers before Kafka 1.0 have only version 0, in which logins have no frames.
    request.API_VERSION = versions.api_version(request, min_version=1)
    return request


def _authenticating(token: bytes, versions: BrokerVersionData) -> Any:
    request = SaslAuthenticateRequest(token)
    request.API_VERSION = versions.api_version(request)
    return request
