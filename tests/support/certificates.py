"""A CA of a test's own, with keys and certificates as PEM files."""

import datetime as dt
from ipaddress import IPv4Address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


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
        if host is not None:
            made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(host))]), critical=False)
        return made.sign(self._key, hashes.SHA256())


def _pem(what):
    return what.public_bytes(serialization.Encoding.PEM)
