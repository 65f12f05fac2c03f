"""Reads the key stores and trust stores of Java clients: PKCS12, PEM, and trust stores in JKS.

PKCS12, which keytool makes since Java 9, needs the package cryptography (``tidegate[keystores]``).  JKS is read here as
``sun.security.provider.JavaKeyStore`` writes it: its only library for Python (pyjks) is no longer maintained.  Its keys
are not read, since Sun encrypted them in a way of its own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import struct
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

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

    key: the private key, perhaps encrypted; empty: there is none.
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
    raise StoreError("which is no JKS, PKCS12 or PEM store")


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
            "which is a PKCS12 store, and to read it the package cryptography is missing: pip install "
            "'tidegate[keystores]', or convert the store to PEM"
        ) from None
    try:
        store = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except ValueError:
        reason = "needs its password" if password is None else "does not open with its password"
        raise StoreError(f"which {reason}, or is no PKCS12 store") from None
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
