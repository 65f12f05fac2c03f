"""Key stores of Java's keytool give back the key and the certificates that were put into them."""

from __future__ import annotations

import builtins
import errno
import os
import ssl
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from tests.support.servers.tokens import STORE_PASSWORD, Authority, key_store, keytool, trust_stores
from tidegate.errors import OptionError
from tidegate.readers.kafka.wire.tls import StoreError, as_pem, read_store, tls_context


class Stores(NamedTuple):
    authority: Authority
    pem: Path
    key: Path
    trusted: dict[str, Path]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    pem = authority.issue("me")
    return Stores(authority, pem, key_store(pem, authority.certificate), trust_stores(authority.certificate))


def first_in(pem):
    return x509.load_pem_x509_certificates(pem.read_bytes())[0]


def private_numbers(pem):
    return serialization.load_pem_private_key(pem, None).private_numbers()


def test_a_key_comes_back_with_its_chain(stores):
    store = read_store(stores.key.read_bytes(), STORE_PASSWORD)
    assert private_numbers(store.key) == private_numbers(stores.pem.read_bytes())
    own, issuer = x509.load_pem_x509_certificates(store.chain)
    assert own == first_in(stores.pem)
    assert issuer == first_in(stores.authority.certificate)


def test_a_ca_that_is_trusted_beside_a_key_is_trusted(stores, tmp_path):
    file = tmp_path / "both"
    file.write_bytes(stores.key.read_bytes())
    ca = stores.authority.certificate
    keytool("-importcert", "-alias", "ca", "-file", ca, "-keystore", file, "-storepass", STORE_PASSWORD)
    trusted = read_store(file.read_bytes(), STORE_PASSWORD).trusted
    assert set(x509.load_pem_x509_certificates(trusted)) == {first_in(stores.pem), first_in(ca)}


@pytest.mark.parametrize("new_first", [True, False])
def test_a_ca_that_got_a_new_key_is_trusted_and_the_chain_has_the_one_that_signed(stores, tmp_path, new_first):
    own, old, new = map(first_in, (stores.pem, stores.authority.certificate, Authority(tmp_path).certificate))
    assert old.subject == new.subject
    key = serialization.load_pem_private_key(stores.pem.read_bytes(), None)
    opening = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    authorities = [new, old] if new_first else [old, new]
    store = read_store(pkcs12.serialize_key_and_certificates(b"me", key, own, authorities, opening), STORE_PASSWORD)
    assert x509.load_pem_x509_certificates(store.chain) == [own, old]
    assert x509.load_pem_x509_certificates(store.trusted) == [own, new]


def test_a_server_is_trusted_by_its_certificate_without_its_ca(stores):
    client = tls_context(settings(truststore_location=stores.key, truststore_password=STORE_PASSWORD))
    assert shakes_hands(client, stores.pem)
    with pytest.raises(ssl.SSLCertVerificationError):
        shakes_hands(client, stores.authority.issue("another"))


def shakes_hands(client, pem):
    """Return whether a client and a server with this certificate agree; raises the errors of either."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):  # flights of a handshake
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return all(side.cipher() is not None for side in sides)


def test_a_jks_store_is_read_without_its_password_as_in_java_but_not_with_a_wrong_one(stores):
    content = stores.trusted["JKS"].read_bytes()
    assert read_store(content, None) == read_store(content, STORE_PASSWORD)
    (trusted,) = x509.load_pem_x509_certificates(read_store(content, None).trusted)
    assert trusted == first_in(stores.authority.certificate)
    for place in (60, len(content) - 1):
        damaged = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        with pytest.raises(StoreError, match="does not open with its password, or is damaged"):
            read_store(damaged, STORE_PASSWORD)


@pytest.mark.parametrize(
    ("password", "reason"), [("wrong", "does not open with its password"), (None, "needs its password")]
)
def test_a_wrong_password_is_reported(stores, password, reason):
    with pytest.raises(StoreError, match=reason):
        read_store(stores.key.read_bytes(), password)


@pytest.mark.parametrize("content", [b"", b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"0\x82", b"PK\3\4", b"\xff" * 99])
def test_what_is_no_store_is_refused(content):
    with pytest.raises(StoreError, match=r"^which "):
        read_store(content, None)


def test_a_key_in_jks_is_refused_with_the_way_to_read_it():
    with pytest.raises(StoreError, match=r"JKS store with a key; keytool -importkeystore -deststoretype PKCS12 conver"):
        read_store(struct.pack(">IIII", 0xFEEDFEED, 2, 1, 1) + bytes(40), None)


@pytest.mark.parametrize("begun", ["-" * 20_000, "-----BEGIN " + " " * 20_000, "-----BEGIN A" + " A" * 10_000])
@pytest.mark.parametrize("end", ["", "\n" * 20_000, "-----" + "A " * 10_000])
def test_a_text_that_is_nearly_pem_is_read_at_once(begun, end):
    assert as_pem(begun + end) == (begun + end).encode()  # it took hours


def test_every_cut_of_a_store_is_refused(stores):
    content = stores.trusted["JKS"].read_bytes()
    for end in range(4, len(content) - 1, 7):
        with pytest.raises(StoreError):
            read_store(content[:end], None)


def test_without_its_package_a_pkcs12_store_is_refused_with_the_way_to_get_it(stores, monkeypatch):
    real = builtins.__import__

    def importing(name, *remainder):
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *remainder)

    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(StoreError, match=r"convert the store to PEM, or install .* pip install '\.\[keystores\]'$"):
        read_store(stores.key.read_bytes(), STORE_PASSWORD)


def settings(**properties):
    return {"security_protocol": "SSL", **{f"ssl_{name}": str(value) for name, value in properties.items()}}


def of_stores(stores):
    return settings(
        truststore_location=stores.trusted["JKS"],
        keystore_location=stores.key,
        keystore_password=STORE_PASSWORD,
    )


@pytest.fixture
def loaded_from(monkeypatch):
    """Return a list that receives the files from which keys are loaded, with the modes of file and folder."""
    files = []
    load = ssl.SSLContext.load_cert_chain

    def loaded(context, path, *remainder):
        files.append((path, path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777))
        load(context, path, *remainder)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", loaded)
    return files


def open_files():
    return sorted(str(file) for file in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files in memory are Linux's")
def test_a_store_becomes_a_context_and_its_key_touches_no_disk(stores, loaded_from):
    before = open_files()
    context = tls_context(of_stores(stores))
    assert context.cert_store_stats()["x509_ca"] == 1
    assert [path.parts[:4] for path, _, _ in loaded_from] == [("/", "proc", "self", "fd")]
    with pytest.raises(OptionError, match=r"'kafka.ssl.keystore.location' is .*; look at 'kafka.ssl.keystore.passw"):
        tls_context(of_stores(stores) | {"ssl_keystore_password": "wrong"})
    assert open_files() == before


@pytest.mark.parametrize("is_forbidden", [False, True])
def test_where_no_file_can_be_in_memory_only_we_can_read_the_key_and_no_file_is_left_behind(
    stores, loaded_from, tmp_path, monkeypatch, *, is_forbidden
):
    def forbid(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if is_forbidden:
        monkeypatch.setattr(os, "memfd_create", forbid, raising=False)
    else:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert tls_context(of_stores(stores)) is not None
    assert [modes for _, *modes in loaded_from] == [[0o600, 0o700]]
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_with_a_store_is_reported_with_its_option(stores, tmp_path):
    wrong = {
        "truststore_location": stores.trusted["JKS"],
        "truststore_password": "wrong",
    }
    with pytest.raises(OptionError) as raised:
        tls_context(settings(**wrong))
    assert str(raised.value) == (
        f"the option 'kafka.ssl.truststore.location' is '{stores.trusted['JKS']}', which does not open with its "
        "password, or is damaged; look at 'kafka.ssl.truststore.password'"
    )
    with pytest.raises(OptionError, match=r"'kafka.ssl.keystore.location' is .*, which holds no private key$"):
        tls_context(settings(keystore_location=stores.trusted["JKS"]))
    with pytest.raises(OptionError, match=r"'kafka.ssl.truststore.certificates' holds no certificate in PEM$"):
        tls_context(settings(truststore_certificates="x"))
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for trusted in ({"truststore_location": damaged}, {"truststore_certificates": damaged.read_text()}):
        with pytest.raises(OptionError, match=r"'kafka.ssl.truststore.*, which holds a damaged certificate$"):
            tls_context(settings(**trusted))
    missing = tmp_path / "missing.jks"
    with pytest.raises(OptionError, match=f"'kafka.ssl.keystore.location' is '{missing}': No such file or directory"):
        tls_context(settings(keystore_location=missing))
