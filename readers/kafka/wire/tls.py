"""The TLS context from the options and key stores, and the option that explains a failed handshake.

kafka-python's own context (``kafka.net``, as of 3.0) takes PEM files only, and no choice of versions.

Java's PKCS12, which keytool makes since Java 9, needs the package cryptography (``tidegate[keystores]``).  JKS is read
here as ``sun.security.provider.JavaKeyStore`` writes it: its only library for Python (pyjks) is no longer maintained.
Its keys are not read, since Sun encrypted them in a way of its own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import ssl
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

from tidegate.errors import OptionError, with_extra

_JKS, _JCEKS = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_DER_SEQUENCE = b"\x30"
_CONVERTS = "keytool -importkeystore -deststoretype PKCS12 converts it"
_TRUSTED_ENTRY = 2
_JKS_VERSION = 2  # since Java 1.2
_DIGEST_SIZE = hashlib.sha1(usedforsecurity=False).digest_size
# No two parts match the same characters, so this takes linear time.
_BLOCK = re.compile(
    r"-----BEGIN (?P<label>[A-Z0-9]+(?: [A-Z0-9]+)*)-----(?P<body>[A-Za-z0-9/+=\s]*)-----END (?P=label)-----"
)


class StoreError(Exception):
    """A store cannot be read; completes the sentence "the store, ..."."""


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """The content of a store, in PEM.

    key: the private key, perhaps encrypted; empty without one.
    chain: the certificate of the key, and those of its CAs after it.
    """

    key: bytes = field(default=b"", repr=False)
    chain: bytes = b""
    trusted: bytes = b""


def read_store(content: bytes, password: str | None) -> KeyMaterial:
    """Return the content of a store; its first bytes show its type.

    password: the password of the store; without it, a JKS store is read unchecked, as in Java.  A key in PEM stays
        encrypted.

    Of several keys the first one is taken.  As in Java, the certificate of a key is trusted, but not those of its CAs.
    Raises StoreError.
    """
    if content.startswith(_JKS):
        return KeyMaterial(trusted=b"".join(_block("CERTIFICATE", der) for der in _trusted_of_jks(content, password)))
    if content.startswith(_JCEKS):
        raise StoreError(f"which is a JCEKS store; {_CONVERTS}")
    if b"-----BEGIN" in content:
        return _pem(content.decode("utf-8", "replace"))
    if content[:1] == _DER_SEQUENCE:
        return _pkcs12(content, password)
    raise StoreError("which is not a JKS, PKCS12 or PEM store")


def as_pem(text: str) -> bytes:
    """Return the PEM blocks of a text whose line breaks may be missing, as in a properties file.  Raises StoreError."""
    blocks = list(_BLOCK.finditer(text))
    if not blocks:
        return text.encode()
    try:
        return b"".join(_block(block["label"], base64.b64decode(block["body"])) for block in blocks)
    except binascii.Error:
        raise StoreError("whose PEM is damaged") from None


def _block(label: str, der: bytes) -> bytes:
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label.encode(), base64.encodebytes(der), label.encode())


def _pem(text: str) -> KeyMaterial:
    """Return keys and certificates; both kinds of store hold certificates."""
    blocks = [(match["label"], match[0]) for match in _BLOCK.finditer(text)]
    keys = [as_pem(block) for label, block in blocks if label.endswith("PRIVATE KEY")]
    if not keys and "PRIVATE KEY" in text:  # in OpenSSL's old encryption, with headers
        keys = [text.encode()]
    certificates = b"".join(as_pem(block) for label, block in blocks if label.endswith("CERTIFICATE"))
    return KeyMaterial(keys[0] if keys else b"", certificates, certificates)


def _pkcs12(content: bytes, password: str | None) -> KeyMaterial:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise StoreError(
            "which is a PKCS12 store, and to read it the package cryptography is missing: convert the store to PEM, or "
            f"install {with_extra('keystores')}"
        ) from None
    try:
        store = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except ValueError:
        reason = "needs its password" if password is None else "does not open with its password"
        raise StoreError(f"which {reason}, or is not a PKCS12 store") from None
    pem = serialization.Encoding.PEM
    others = [entry.certificate for entry in store.additional_certs]
    everything = [*([] if store.cert is None else [store.cert.certificate]), *others]
    if store.key is None or store.cert is None:
        return KeyMaterial(trusted=b"".join(certificate.public_bytes(pem) for certificate in everything))
    key = store.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    line = [store.cert.certificate]
    # Such a store has no order, but a broker expects each certificate before that of its issuer.
    while (above := next((other for other in others if _is_issued_by(line[-1], other)), None)) is not None:
        if above in line:
            break
        line.append(above)
        everything.remove(above)  # it is there a second time if it is also trusted
    chain, trusted = (b"".join(one.public_bytes(pem) for one in group) for group in (line, everything))
    return KeyMaterial(key, chain, trusted)


def _is_issued_by(certificate: Any, authority: Any) -> bool:
    """Return whether an authority signed a certificate: one that got a new key still has its old name."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, UnsupportedAlgorithm, TypeError, ValueError):
        return False
    return True


def _trusted_of_jks(content: bytes, password: str | None) -> list[bytes]:
    body, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
    if password is not None:
        wanted = hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(wanted, digest):
            raise StoreError("which does not open with its password, or is damaged")
    stream, trusted = BytesIO(body), []

    def take(layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, stream.read(struct.calcsize(layout)))

    def take_bytes(size_layout: str) -> bytes:
        (content,) = take(f"{take(size_layout)[0]}s")
        return bytes(content)

    try:
        _, version, entries = take(">III")
        if version != _JKS_VERSION:
            raise StoreError(f"which is a JKS store of the unknown version {version}")
        for _ in range(entries):
            if take(">I") != (_TRUSTED_ENTRY,):
                raise StoreError(f"which is a JKS store with a key; {_CONVERTS}")
            take_bytes(">H")  # the alias
            take(">Q")  # the date
            take_bytes(">H")  # the type of the certificate
            trusted.append(take_bytes(">I"))
    except struct.error:
        raise StoreError("which is a damaged JKS store") from None
    return trusted


_NAMES_DIFFER = {62, 64}  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_OUT_OF_DATE = {9, 10}  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED
_INLINE = "..."  # in place of a file name, for a value in the option itself, which no error may show
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def tls_context(properties: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Return the context for ``security_protocol``; None: without TLS.

    Raises OptionError, which names the option, if a file is missing or has the wrong content.  Never prompts for a
    password.
    """
    if not properties.get("security_protocol", "PLAINTEXT").endswith("SSL"):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = properties.get("ssl_enabled_protocols", ("TLSv1.2", "TLSv1.3"))
    context.minimum_version, context.maximum_version = _VERSIONS[versions[0]], _VERSIONS[versions[-1]]
    context.check_hostname = properties.get("ssl_endpoint_identification_algorithm", "https") == "https"
    # As in Java, a trusted certificate need not be that of a root CA.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _trust(context, properties)
    if (own := _own_key(properties)) is not None:
        _show(context, own, properties)
    return context


def look_at_for(error: ssl.SSLError) -> str:
    """Return the options that explain why a handshake fails for good; empty: it was only cut off."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _NAMES_DIFFER:
            return "kafka.ssl.endpoint.identification.algorithm and kafka.bootstrap.servers"
        if error.verify_code in _OUT_OF_DATE:
            return "kafka.bootstrap.servers"
        return "kafka.ssl.truststore.*"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return ""
    if "ALERT" in (error.reason or ""):
        return "kafka.ssl.keystore.* and kafka.security.protocol"
    return "kafka.security.protocol"


def _trust(context: ssl.SSLContext, properties: Mapping[str, Any]) -> None:
    """Trust the certificates of the trust store, or else the system's."""
    store = _store("truststore", properties)
    if store is None:
        context.load_default_certs()
        return
    option, file, content = store
    if not content.trusted:
        _refuse(option, file, "which holds no certificate")
    try:
        context.load_verify_locations(cadata=content.trusted.decode("ascii", "ignore"))
    except ssl.SSLError:
        _refuse(option, file, "which holds a damaged certificate")


def _own_key(properties: Mapping[str, Any]) -> KeyMaterial | None:
    """Return our private key and its certificates."""
    chain = properties.get("ssl_keystore_certificate_chain")
    if chain is not None:
        key, line = (_inline(f"ssl.keystore.{name}", properties) for name in ("key", "certificate.chain"))
        return KeyMaterial(key, line)
    store = _store("keystore", properties)
    if store is None:
        return None
    option, file, content = store
    if not content.key or not content.chain:
        _refuse(option, file, f"which holds no {'certificate' if content.key else 'private key'}")
    return content


def _store(kind: str, properties: Mapping[str, Any]) -> tuple[str, str, KeyMaterial] | None:
    """Return the store of a kind with the option that names it and its file."""
    if f"ssl_{kind}_certificates" in properties:
        option = f"ssl.{kind}.certificates"
        return option, _INLINE, KeyMaterial(trusted=_inline(option, properties))
    file = properties.get(f"ssl_{kind}_location")
    if file is None:
        return None
    option = f"ssl.{kind}.location"
    try:
        store = read_store(Path(file).read_bytes(), properties.get(f"ssl_{kind}_password"))
    except OSError as problem:
        raise OptionError(f"the option 'kafka.{option}' is {file!r}: {problem.strerror}") from None
    except StoreError as error:
        remedy = f"; look at 'kafka.ssl.{kind}.password'" if "password" in str(error) else ""
        _refuse(option, file, f"{error}{remedy}")
    return option, file, store


def _inline(option: str, properties: Mapping[str, Any]) -> bytes:
    try:
        pem = as_pem(properties.get(option.replace(".", "_"), ""))
    except StoreError:
        pem = b""
    wanted = b"PRIVATE KEY" if option.endswith("key") else b"CERTIFICATE"
    if b"-----BEGIN" not in pem or wanted not in pem:
        raise OptionError(f"the option 'kafka.{option}' holds no {wanted.decode().lower()} in PEM")
    return pem


def _show(context: ssl.SSLContext, own: KeyMaterial, properties: Mapping[str, Any]) -> None:
    """Load a key from memory."""
    option = "ssl.keystore.location" if "ssl_keystore_location" in properties else "ssl.keystore.key"
    file = properties.get("ssl_keystore_location", _INLINE)
    password = properties.get("ssl_key_password")
    with _as_file(own.key + own.chain) as path:
        try:
            context.load_cert_chain(path, None, _password_given(option, file, password))
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                _refuse(option, file, "whose key is not that of its certificate")
            if b"ENCRYPTED" in own.key:
                _refuse(option, file, "whose key does not open with 'kafka.ssl.key.password'")
            _refuse(option, file, "which holds no usable private key with its certificate")


@contextmanager
def _as_file(content: bytes) -> Iterator[Path]:
    """Yield a file with the content for Python's ssl, which loads keys from files only.

    The file is in memory and has no name, so that nothing is left behind, however the process ends.  If the system has
    no such files, it is in a folder that only this user can read.
    """
    in_memory = _file_in_memory()
    if in_memory is not None:
        with os.fdopen(in_memory, "wb") as written:
            written.write(content)
            written.flush()
            yield Path(f"/proc/self/fd/{written.fileno()}")
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        path = Path(folder) / "key.pem"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as written:
            written.write(content)
        yield path


def _file_in_memory() -> int | None:
    """Return the descriptor of a new file in memory that has a path; None: the system does not allow it."""
    if not hasattr(os, "memfd_create") or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.memfd_create("tidegate", os.MFD_CLOEXEC)
    except OSError:  # such as EPERM in a sandbox, or ENOSYS
        return None


def _password_given(option: str, file: str, password: str | None) -> Callable[[], str]:
    """Return the function that OpenSSL calls for a key's password; without it, OpenSSL would prompt in the terminal."""

    def given() -> str:
        if password is None:
            _refuse(option, file, "whose key is encrypted, but 'kafka.ssl.key.password' is missing")
        return str(password)

    return given


def _refuse(option: str, file: str, reason: str) -> NoReturn:
    shown = "given" if file == _INLINE else repr(file)
    raise OptionError(f"the option 'kafka.{option}' is {shown}, {reason}") from None
