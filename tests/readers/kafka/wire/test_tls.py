"""Errors about files of keys and certificates name the option, and nobody is asked for a password."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from tests.support.certificates import Authority
from tidegate.errors import OptionError
from tidegate.readers.kafka.wire.tls import tls_context

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter2"  # noqa: S105 - the password of a key that lives for seconds


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def context(**properties: object) -> ssl.SSLContext | None:
    return tls_context({"security_protocol": "SSL", **{name: str(value) for name, value in properties.items()}})


def test_without_tls_no_file_is_read() -> None:
    assert tls_context({"ssl_cafile": "no-such.pem"}) is None
    assert tls_context({"security_protocol": "SASL_PLAINTEXT"}) is None


def test_names_are_checked_unless_said_otherwise() -> None:
    checked = tls_context({"security_protocol": "SASL_SSL"})
    assert checked is not None
    assert checked.check_hostname
    assert checked.verify_mode == ssl.CERT_REQUIRED
    assert checked.minimum_version == ssl.TLSVersion.TLSv1_2
    unchecked = tls_context({"security_protocol": "SSL", "ssl_check_hostname": False})
    assert unchecked is not None
    assert not unchecked.check_hostname
    assert unchecked.verify_mode == ssl.CERT_REQUIRED


def test_an_encrypted_key_opens_with_its_password_alone(authority: Authority) -> None:
    file = authority.issue("encrypted", password=SECRET)
    assert context(ssl_certfile=file, ssl_password=SECRET) is not None
    with pytest.raises(OptionError) as raised:
        context(ssl_certfile=file)
    assert str(raised.value) == (
        f"the option 'kafka.ssl.certfile' is '{file}', whose key is encrypted, but 'kafka.ssl.password' is missing"
    )
    with pytest.raises(OptionError) as raised:
        context(ssl_certfile=file, ssl_keyfile=file, ssl_password="swordfish")  # noqa: S106 - a wrong password
    assert str(raised.value) == (
        f"the option 'kafka.ssl.keyfile' is '{file}', whose key does not open with 'kafka.ssl.password'"
    )


def test_a_key_of_another_certificate_is_refused(authority: Authority) -> None:
    one, another = authority.issue("one"), authority.issue("another")
    with pytest.raises(OptionError, match=r"'kafka.ssl.keyfile' is .*, whose key is not that of the certificate in"):
        context(ssl_certfile=one, ssl_keyfile=another)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cafile", "holds no certificate in PEM"),
        ("certfile", "holds no certificate in PEM"),
        ("keyfile", "holds no private key in PEM"),
        ("crlfile", r"holds no list of revoked certificates \(CRL\) in PEM"),
    ],
)
@pytest.mark.parametrize("content", ["", "no certificate", "-----BEGIN X-----\nAA==\n-----END X-----\n"])
def test_a_file_that_is_not_what_it_should_be_is_named_with_its_option(
    authority: Authority, tmp_path: Path, name: str, reason: str, content: str
) -> None:
    file = tmp_path / "file.pem"
    file.write_text(content)
    needed = {"ssl_certfile": authority.issue("mine")} if name == "keyfile" else {}
    with pytest.raises(OptionError, match=rf"^the option 'kafka.ssl.{name}' is '{file}', which {reason}$"):
        context(**{**needed, f"ssl_{name}": file})


def test_certificates_are_no_list_of_revoked_ones(authority: Authority) -> None:
    with pytest.raises(OptionError, match=r"'kafka.ssl.crlfile' is .*, which holds no list of revoked certificates"):
        context(ssl_cafile=authority.certificate, ssl_crlfile=authority.certificate)
