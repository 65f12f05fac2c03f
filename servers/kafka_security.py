"""The security of a Kafka broker: TLS, client certificates, logins and rights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CLIENT_CERTIFICATE = "MTLS"
TOKEN_AUDIENCE = "kafka"  # noqa: S105 - this is no token

_MODULES = "org.apache.kafka.common.security"
_TOKEN_VALIDATOR = f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True)
class KafkaSecurity:
    """Further listeners of every broker, besides the listener without security that brokers use among themselves.

    users: the password of each user, for PLAIN and SCRAM.  Users add the listener ``SASL_PLAINTEXT``.
    keystore: a PEM file with the brokers' private key, not encrypted, and their certificate.  It adds the listener
        ``SSL``, and with users also ``SASL_SSL``.
    truststore: a PEM file with a CA.  It adds the listener ``MTLS``, where clients must have a certificate of this CA.
        It needs ``keystore``.
    further_keystores: the keystores of further listeners with TLS, by the listener's name, such as ``EXPIRED``.
    token_keys: a JWKS file with the public keys for tokens, whose audience is ``kafka``.  It adds OAUTHBEARER to the
        listeners with ``SASL_``, also without ``users``.
    has_acls: users need rights, which ``KafkaServer.allow`` gives.  All clients without a login have all rights.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    keystore: str | Path | None = None
    truststore: str | Path | None = None
    further_keystores: Mapping[str, str | Path] = field(default_factory=dict)
    token_keys: str | Path | None = None
    has_acls: bool = False

    @property
    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener, by the listener's name."""
        has_logins = bool(self.users) or self.token_keys is not None
        named = {
            "SASL_PLAINTEXT": has_logins,
            "SSL": self.keystore is not None,
            "SASL_SSL": has_logins and self.keystore is not None,
        }
        listeners = {name: name for name, is_wanted in named.items() if is_wanted}
        listeners |= dict.fromkeys(self.further_keystores, "SSL")
        return listeners | ({CLIENT_CERTIFICATE: "SSL"} if self.truststore is not None else {})

    @property
    def settings(self) -> dict[str, str]:
        """The properties of a broker with these listeners."""
        settings: dict[str, str] = {}
        if self.keystore is not None:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)}
        if self.truststore is not None:
            settings |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.truststore),
                f"listener.name.{CLIENT_CERTIFICATE.lower()}.ssl.client.auth": "required",
            }
        for listener, keystore in self.further_keystores.items():
            settings[f"listener.name.{listener.lower()}.ssl.keystore.location"] = str(keystore)
            settings[f"listener.name.{listener.lower()}.ssl.keystore.type"] = "PEM"
        for listener in (name for name in self.protocols if name.startswith("SASL_")):
            prefix = f"listener.name.{listener.lower()}"
            settings[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(self._mechanisms)
            for mechanism in self._mechanisms:
                settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = self._jaas(mechanism)
            if self.token_keys is not None:
                settings[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = _TOKEN_VALIDATOR
        if self.token_keys is not None:
            settings |= {
                "sasl.oauthbearer.jwks.endpoint.url": self._keys_url,
                "sasl.oauthbearer.expected.audience": TOKEN_AUDIENCE,
                # The default validator of Kafka 4.1 is for clients, and checks no signature.
                "sasl.oauthbearer.jwt.validator.class": f"{_MODULES}.oauthbearer.BrokerJwtValidator",
            }
        if self.has_acls:
            settings |= {"authorizer.class.name": _AUTHORIZER, "super.users": "User:ANONYMOUS"}
        return settings

    @property
    def jvm_options(self) -> list[str]:
        """The arguments for the broker's Java; they allow it to read the keys of tokens."""
        if self.token_keys is None:
            return []
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys_url}"]

    @property
    def _keys_url(self) -> str:
        return Path(str(self.token_keys)).absolute().as_uri()

    @property
    def _mechanisms(self) -> list[str]:
        return [*(PASSWORD_MECHANISMS if self.users else ()), *([] if self.token_keys is None else ["OAUTHBEARER"])]

    def _jaas(self, mechanism: str) -> str:
        if mechanism == "OAUTHBEARER":
            return f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
        if mechanism != "PLAIN":
            return f"{_MODULES}.scram.ScramLoginModule required;"
        # A broker's settings cannot hold a name with other characters.  Such a user can log in only by SCRAM.
        plain = {name: password for name, password in self.users.items() if name.isidentifier()}
        users = "".join(f' user_{name}="{password}"' for name, password in plain.items())
        return f"{_MODULES}.plain.PlainLoginModule required{users};"
