"""Errors about files of keys and certificates name the option, and nobody is asked for a password."""

import ssl

import pytest

from tests.support.servers.tokens import Authority
from tidegate.errors import OptionError
from tidegate.readers.kafka.wire.tls import tls_context

SECRET = "hunter2"  # noqa: S105 - the password of a key that lives for seconds


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def context(**properties):
    return tls_context({"security_protocol": "SSL", **{name: str(value) for name, value in properties.items()}})


def test_without_tls_no_file_is_read():
    assert tls_context({"ssl_truststore_location": "no-such.pem"}) is None
    assert tls_context({"security_protocol": "SASL_PLAINTEXT"}) is None


def test_names_are_checked_unless_said_otherwise():
    checked = tls_context({"security_protocol": "SASL_SSL"})
    assert checked.check_hostname
    assert checked.verify_mode == ssl.CERT_REQUIRED
    assert checked.minimum_version == ssl.TLSVersion.TLSv1_2
    older = tls_context({"security_protocol": "SSL", "ssl_enabled_protocols": ("TLSv1.2",)})
    assert older.maximum_version == ssl.TLSVersion.TLSv1_2
    unchecked = tls_context({"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": ""})
    assert not unchecked.check_hostname
    assert unchecked.verify_mode == ssl.CERT_REQUIRED


def test_an_encrypted_key_opens_with_its_password_alone(authority):
    file = authority.issue("encrypted", password=SECRET)
    option = f"the option 'kafka.ssl.keystore.location' is '{file}', whose key"
    assert context(ssl_keystore_location=file, ssl_key_password=SECRET) is not None
    for wrong, sentence in (
        ({}, f"{option} is encrypted, but 'kafka.ssl.key.password' is missing"),
        ({"ssl_key_password": "swordfish"}, f"{option} does not open with 'kafka.ssl.key.password'"),
    ):
        with pytest.raises(OptionError) as raised:
            context(ssl_keystore_location=file, **wrong)
        assert str(raised.value) == sentence


def test_a_key_of_another_certificate_is_refused(authority, tmp_path):
    texts = [authority.issue(name).read_text().partition("-----BEGIN CERT") for name in ("one", "another")]
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(texts[0][0] + "".join(texts[1][1:]))
    with pytest.raises(OptionError, match=r"'kafka.ssl.keystore.location' is .*, whose key is not that of its certifi"):
        context(ssl_keystore_location=mixed)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("truststore.location", "is no JKS, PKCS12 or PEM store|holds no certificate"),
        ("keystore.location", "is no JKS, PKCS12 or PEM store|holds no private key"),
    ],
)
@pytest.mark.parametrize("content", ["", "no certificate", "-----BEGIN X-----\nAA==\n-----END X-----\n"])
def test_a_file_that_is_not_what_it_should_be_is_named_with_its_option(tmp_path, name, reason, content):
    file = tmp_path / "file.pem"
    file.write_text(content)
    with pytest.raises(OptionError, match=rf"^the option 'kafka.ssl.{name}' is '{file}', which ({reason})$"):
        context(**{f"ssl_{name.replace('.', '_')}": file})
