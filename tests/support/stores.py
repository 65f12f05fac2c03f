"""Key stores of Java, made by its own keytool from PEM files."""

import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from tidegate.servers.java import find_java

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
