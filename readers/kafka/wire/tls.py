"""The TLS context of the options, and the option to blame for a failed handshake."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tidegate.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["look_at_for", "tls_context", "unverified_context"]

_NAMES_DIFFER = {62, 64}  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_OF_REVOCATION = {3, 11, 12, 23}  # X509_V_ERR_UNABLE_TO_GET_CRL, ..._CRL_NOT_YET_VALID, ..._HAS_EXPIRED, ..._REVOKED


def tls_context(properties: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Return the context for ``security_protocol``; None: without TLS.

    properties: kafka-python's.

    Raises OptionError that names the option whose file is missing or is not what it should be.
    Never asks for a password.
    """
    if not properties.get("security_protocol", "PLAINTEXT").endswith("SSL"):
        return None
    for name in ("cafile", "certfile", "keyfile", "crlfile"):
        _check_readable(f"ssl.{name}", properties.get(f"ssl_{name}"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = properties.get("ssl_check_hostname", True)
    _trust(context, properties.get("ssl_cafile"))
    _show_certificate(context, properties)
    _heed_revocations(context, properties.get("ssl_crlfile"))
    return context


def unverified_context() -> ssl.SSLContext:
    """Return a context that trusts everybody and shows nothing: only to find out whether there is TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def look_at_for(error: ssl.SSLError) -> tuple[str, ...]:
    """Return the options that let a handshake fail for good; none: it was only cut off."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _NAMES_DIFFER:
            return ("ssl_check_hostname", "bootstrap_servers")
        return ("ssl_crlfile",) if error.verify_code in _OF_REVOCATION else ("ssl_cafile",)
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return ()
    if "ALERT" in (error.reason or ""):
        return ("ssl_certfile", "ssl_keyfile", "security_protocol")
    return ("security_protocol",)


def _trust(context: ssl.SSLContext, file: str | None) -> None:
    if file is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(file)
    except ssl.SSLError:
        _refuse("ssl.cafile", file, "which holds no certificate in PEM")


def _show_certificate(context: ssl.SSLContext, properties: Mapping[str, Any]) -> None:
    certificate, key = properties.get("ssl_certfile"), properties.get("ssl_keyfile")
    if certificate is None:
        return
    password = properties.get("ssl_password")
    option, file = ("ssl.certfile", certificate) if key is None else ("ssl.keyfile", key)

    def told() -> str:
        # Without this, OpenSSL would ask the terminal.
        if password is None:
            _refuse(option, file, "whose key is encrypted, but 'kafka.ssl.password' is missing")
        return str(password)

    try:
        context.load_cert_chain(certificate, key, told)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            _refuse(option, file, f"whose key is not that of the certificate in 'kafka.ssl.certfile', {certificate!r}")
        if password is not None and b"ENCRYPTED" in Path(file).read_bytes():
            _refuse(option, file, "whose key does not open with 'kafka.ssl.password'")
        if b"BEGIN CERTIFICATE" not in Path(certificate).read_bytes():
            _refuse("ssl.certfile", certificate, "which holds no certificate in PEM")
        _refuse(option, file, "which holds no private key in PEM")


def _heed_revocations(context: ssl.SSLContext, file: str | None) -> None:
    if file is None:
        return
    with suppress(ssl.SSLError):
        context.load_verify_locations(file)
    if not context.cert_store_stats()["crl"]:
        _refuse("ssl.crlfile", file, "which holds no list of revoked certificates (CRL) in PEM")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _check_readable(option: str, file: str | None) -> None:
    try:
        if file is not None:
            Path(file).open("rb").close()
    except OSError as problem:
        raise OptionError(f"the option 'kafka.{option}' is {file!r}: {problem.strerror}") from None


def _refuse(option: str, file: str, reason: str) -> NoReturn:
    raise OptionError(f"the option 'kafka.{option}' is {file!r}, {reason}") from None
