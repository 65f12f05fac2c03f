"""The demands of a Kafka broker on its clients: TLS, a certificate, a login."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["PASSWORD_MECHANISMS", "KafkaSecurity"]

PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CLIENT_CERTIFICATE = "MTLS"

_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class KafkaSecurity:
    """Further listeners of every broker, besides the one in clear by which the brokers talk to each other.

    users: the password of each user, for PLAIN and SCRAM; they bring the listener ``SASL_PLAINTEXT``.
    keystore: PEM file with the brokers' private key, not encrypted, and certificate; it brings the
        listener ``SSL``, and with users ``SASL_SSL``.
    truststore: PEM file of the CA whose certificates clients must show at the listener ``MTLS``, which it
        brings; needs ``keystore``.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    keystore: str | Path | None = None
    truststore: str | Path | None = None

    @property
    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener, by the listener's name."""
        named = {
            "SASL_PLAINTEXT": bool(self.users),
            "SSL": self.keystore is not None,
            "SASL_SSL": bool(self.users) and self.keystore is not None,
        }
        listeners = {name: name for name, is_wanted in named.items() if is_wanted}
        return listeners | ({CLIENT_CERTIFICATE: "SSL"} if self.truststore is not None else {})

    @property
    def settings(self) -> dict[str, str]:
        """The properties of a broker that has these listeners."""
        settings: dict[str, str] = {}
        if self.keystore is not None:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)}
        if self.truststore is not None:
            settings |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.truststore),
                f"listener.name.{CLIENT_CERTIFICATE.lower()}.ssl.client.auth": "required",
            }
        for listener in (name for name in self.protocols if name.startswith("SASL_")):
            prefix = f"listener.name.{listener.lower()}"
            settings[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(PASSWORD_MECHANISMS)
            for mechanism in PASSWORD_MECHANISMS:
                settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = self._jaas(mechanism)
        return settings

    @property
    def format_arguments(self) -> list[str]:
        """The arguments that format a storage in which SCRAM's users are known."""
        return [
            argument
            for mechanism in PASSWORD_MECHANISMS[1:]
            for name, password in self.users.items()
            for argument in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]

    def _jaas(self, mechanism: str) -> str:
        if mechanism != "PLAIN":
            return f"{_MODULES}.scram.ScramLoginModule required;"
        users = "".join(f' user_{name}="{password}"' for name, password in self.users.items())
        return f"{_MODULES}.plain.PlainLoginModule required{users};"
