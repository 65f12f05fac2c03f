"""The SASL mechanisms whose kafka-python's versions lack details of Kafka's Java client (as of 3.0).

Kerberos (GSSAPI) takes the key table or the ticket cache that a login module names.  SCRAM (RFC 5802, RFC 7677) escapes
names, knows delegation tokens, and refuses too few iterations.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from tidegate.errors import OptionError
from tidegate.kafka_private import SaslMechanismGSSAPI, SaslMechanismScram, ScramClient
from tidegate.readers.kafka.wire.tokens import TokenError

FEWEST_ITERATIONS = 4096
_MAY_HEAL = {2529639068, 2529639132}  # KRB5_KDC_UNREACH, KRB5_REALM_CANT_RESOLVE, without a sign


class KerberosMechanism(SaslMechanismGSSAPI):  # type: ignore[misc] # kafka-python has no types
    """kafka-python's dialogue, with another constructor, because the original knows only the default ticket.

    Raises OptionError if the package gssapi is missing, and TokenError for a ticket that is not given.
    """

    def __init__(self, **config: Any) -> None:
        try:
            import gssapi
        except (ImportError, OSError):
            raise OptionError(
                "the option 'kafka.sasl.mechanism' is GSSAPI, but the package gssapi is missing; it also needs the "
                "Kerberos libraries of the system: pip install 'tidegate[kerberos]'"
            ) from None
        self._is_done = self._is_authenticated = False
        self.auth_id = f"{config['sasl_kerberos_service_name']}@{config['host']}"
        service = gssapi.Name(self.auth_id, gssapi.NameType.hostbased_service)
        self.gssapi_name = service.canonicalize(gssapi.MechType.kerberos)
        try:
            credentials = _credentials(gssapi, config)
            self._client_ctx: Any = gssapi.SecurityContext(name=self.gssapi_name, creds=credentials, usage="initiate")
            self._next_token: Any = self._client_ctx.step(None)
        except gssapi.exceptions.GSSError as error:
            reason = re.sub(r"^.*Minor \(\d+\): ", "", str(error), flags=re.DOTALL)
            sentence = f"Kerberos gives no ticket for {self.auth_id}{_by_key(config)}: {reason}"
            raise TokenError(sentence, may_heal=error.min_code & 0xFFFFFFFF in _MAY_HEAL) from None


def _credentials(gssapi: Any, config: dict[str, Any]) -> Any:
    """Return the credentials of the login module; None: use those of the process."""
    keytab, principal = config.get("sasl_kerberos_keytab"), config.get("sasl_kerberos_principal")
    store = {
        "client_keytab": keytab,
        "ccache": config.get("sasl_kerberos_ticket_cache") or _own_cache(keytab, principal),
    }
    store = {name: place for name, place in store.items() if place}
    if not store and principal is None:
        return None
    name = None if principal is None else gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    return gssapi.Credentials(name=name, store=store or None, usage="initiate")


def _by_key(config: dict[str, Any]) -> str:
    """Return what Kerberos does not say of a key table: its own reason is that there is no ticket yet."""
    keytab, principal = config.get("sasl_kerberos_keytab"), config.get("sasl_kerberos_principal")
    if not keytab:
        return ""
    if not Path(keytab.removeprefix("FILE:")).exists():
        return f" with the key table {keytab!r}, which does not exist"
    return f" with the key table {keytab!r}" + ("" if principal is None else f" and the principal {principal!r}")


def _own_cache(keytab: str | None, principal: str | None) -> str | None:
    """Return a place in memory for the tickets of a key table.

    Otherwise they would go into the cache of the process, and any ticket there would be used, whatever the key.
    """
    if not keytab:
        return None
    return f"MEMORY:tidegate-{hashlib.sha256(repr((keytab, principal)).encode()).hexdigest()[:16]}"


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
