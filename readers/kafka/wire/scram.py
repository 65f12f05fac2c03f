"""SCRAM (RFC 5802, RFC 7677) with details of Kafka's Java client that kafka-python lacks (as of 3.0).

It escapes names, knows delegation tokens, and refuses too few iterations.
"""

from __future__ import annotations

from typing import Any

from tidegate.kafka_private import SaslMechanismScram, ScramClient

FEWEST_ITERATIONS = 4096


class WeakLoginError(Exception):
    """The other side asks for a login that is too easy to break."""


class ScramMechanism(SaslMechanismScram):  # type: ignore[misc] # kafka-python has no types
    """A login by SCRAM; with ``sasl_delegation_token``, by a delegation token (KIP-48)."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._scram_client = _Client(
            config["sasl_plain_username"],
            config["sasl_plain_password"],
            config["sasl_mechanism"],
            b",tokenauth=true" if config.get("sasl_delegation_token") else b"",
        )


class _Client(ScramClient):  # type: ignore[misc]
    def __init__(self, user: str, password: str, mechanism: str, extensions: bytes) -> None:
        # These two characters have a meaning in the messages.
        super().__init__(user.replace("=", "=3D").replace(",", "=2C"), password, mechanism)
        self._extensions = extensions

    def first_message(self) -> bytes:
        bare = b"n=" + self.user + b",r=" + self.nonce + self._extensions
        self.auth_message += bare
        message: bytes = b"n,," + bare
        return message

    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        if iterations < FEWEST_ITERATIONS:
            raise WeakLoginError(
                f"it asks for {iterations} iterations of SCRAM, and at least {FEWEST_ITERATIONS} are safe (RFC 7677)"
            )
        super().create_salted_password(salt, iterations)
