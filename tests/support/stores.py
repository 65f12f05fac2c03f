"""Key stores of Java, made by its own keytool from PEM files."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from tidegate.servers.java import find_java

STORE_PASSWORD, KEY_PASSWORD = "of the store", "of the key"


def keytool(*arguments: str | Path) -> None:
    tool = Path(find_java()).resolve().with_name("keytool")
    subprocess.run([tool, *arguments, "-noprompt"], check=True, capture_output=True)


def key_stores(file: Path, ca: Path) -> dict[str, Path]:
    """The key and the certificate of a PEM file as PKCS12 and JKS, the latter with another password for the key."""
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    (certificate,), (issuer,) = (x509.load_pem_x509_certificates(path.read_bytes()) for path in (file, ca))
    encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    stores = {"PKCS12": file.with_suffix(".p12"), "JKS": file.with_suffix(".jks")}
    stores["PKCS12"].write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, certificate, [issuer], encryption))
    keytool(
        *("-importkeystore", "-srckeystore", stores["PKCS12"], "-srcstorepass", STORE_PASSWORD, "-srcalias", "me"),
        *("-destkeystore", stores["JKS"], "-deststoretype", "JKS", "-deststorepass", STORE_PASSWORD),
        *("-destkeypass", KEY_PASSWORD),
    )
    return stores


def trust_stores(ca: Path) -> dict[str, Path]:
    """The certificate of a CA as PKCS12 and JKS."""
    stores = {kind: ca.with_suffix(f".{kind.lower()}") for kind in ("PKCS12", "JKS")}
    for kind, store in stores.items():
        keytool(
            *("-importcert", "-alias", "ca", "-file", ca, "-storetype", kind),
            *("-keystore", store, "-storepass", STORE_PASSWORD),
        )
    return stores
