"""Logins of a test's own: a token endpoint (OAuth 2.0), a CA with keys and certificates, and key stores of Java."""

import base64
import datetime as dt
import json
import subprocess
import time
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from tests.support.servers.stub import stub
from tidegate.servers.java import find_java

CLIENT, CLIENT_SECRET = "reports", "of the client"


def _encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenSigner:
    """Signs tokens (RS256)."""

    def __init__(self):
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def keys(self, folder):
        """A JWKS file."""
        numbers = self._key.public_key().public_numbers()
        n, e = (_encoded(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (numbers.n, numbers.e))
        file = folder / "keys.json"
        key = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": n, "e": e}
        file.write_text(json.dumps({"keys": [key]}))
        return file

    def token(self, subject, audience="kafka", life_s=3600):
        claims = {"sub": subject, "aud": audience, "iat": time.time(), "exp": time.time() + life_s}
        parts = [{"alg": "RS256", "typ": "JWT", "kid": "one"}, claims]
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_encoded(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class TokenEndpoint:
    """Gives tokens to ``CLIENT`` while it is used as a context manager; ``asked`` holds the forms that came."""

    def __init__(self, signer):
        self.signer, self.asked = signer, list[dict[str, list[str]]]()
        self.refusal: tuple[int, Any] | None = None
        self._stub = stub(self._asked)

    def _asked(self, request):
        self.asked.append(parse_qs(request.body))
        return self.answer(request.headers["Authorization"])

    def answer(self, login):
        if self.refusal is not None:
            return self.refusal
        if login != f"Basic {base64.b64encode(f'{CLIENT}:{CLIENT_SECRET}'.encode()).decode()}":
            return 401, {"error": "invalid_client"}
        return 200, {"access_token": self.signer.token(CLIENT), "token_type": "Bearer", "expires_in": 3600}

    def __enter__(self):
        self.url = f"{self._stub.__enter__()}/token"
        return self

    def __exit__(self, *error):
        self._stub.__exit__(*error)


signers = {"ours": TokenSigner(), "another": TokenSigner()}


def our_token(options):
    """A function of a user, named by ``sasl.login.callback.handler.class``."""
    return signers["ours"].token(options.get("user", CLIENT)), (time.time() + 3600) * 1000


def foreign_token(_):
    return signers["another"].token(CLIENT)


def expired_token(_):
    return signers["ours"].token(CLIENT, life_s=-3600)


def no_token(_):
    raise ValueError("the role may not sign")


DAY = dt.timedelta(days=1)


_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """A CA; all its files lie in ``folder``, the CA's own certificate as ``certificate``."""

    def __init__(self, folder, name="CA"):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = self._sign(self._name, self._key.public_key(), is_ca=True)
        self.certificate = folder / "ca.pem"
        self.certificate.write_bytes(_pem(self._certificate))

    def issue(self, name, host="127.0.0.1", *, password=None, has_expired=False):
        """One file with a new private key, encrypted if there is a password, and its certificate for a host."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key.public_key(), host=host, until=-DAY / 2 if has_expired else DAY)
        secret = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        file = self.folder / f"{name}.pem"
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
        file.write_bytes(private + _pem(certificate))
        return file

    def _sign(
        self,
        subject,
        key,
        *,
        is_ca=False,
        host=None,
        until=DAY,
    ):
        now = dt.datetime.now(dt.timezone.utc)
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        made = made.serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + until)
        made = made.add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        # Python 3.13 verifies strictly: certificates need the CA's key identifier, and a CA its key usage.
        of_ca = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = made.add_extension(of_ca, critical=False)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        if is_ca:
            made = made.add_extension(_SIGNS, critical=True)
        if host is not None:
            made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(host))]), critical=False)
        return made.sign(self._key, hashes.SHA256())


def _pem(what):
    return what.public_bytes(serialization.Encoding.PEM)


STORE_PASSWORD = "of the store"  # noqa: S105 - of stores that live for seconds


def keytool(*arguments):
    tool = Path(find_java()).resolve().with_name("keytool")
    subprocess.run([tool, *arguments, "-noprompt"], check=True, capture_output=True)


def key_store(file, ca):
    """The key and the certificate of a PEM file as PKCS12."""
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    (certificate,), (issuer,) = (x509.load_pem_x509_certificates(path.read_bytes()) for path in (file, ca))
    encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    store = file.with_suffix(".p12")
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, certificate, [issuer], encryption))
    return store


def trust_stores(ca):
    """The certificate of a CA as PKCS12 and JKS."""
    stores = {kind: ca.with_suffix(f".{kind.lower()}") for kind in ("PKCS12", "JKS")}
    for kind, store in stores.items():
        keytool(
            *("-importcert", "-alias", "ca", "-file", ca, "-storetype", kind),
            *("-keystore", store, "-storepass", STORE_PASSWORD),
        )
    return stores
