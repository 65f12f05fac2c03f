"""Logins by Kerberos, with a mock of the package gssapi, since the real one needs a realm."""

import sys
from types import SimpleNamespace

import pytest

from tidegate.errors import OptionError
from tidegate.readers.kafka.wire.login import KerberosMechanism
from tidegate.readers.kafka.wire.tokens import TokenError

COMMON = {"host": "broker", "sasl_kerberos_service_name": "kafka"}


class Name(str):
    __slots__ = ()

    def __new__(cls, text, kind):
        return super().__new__(cls, f"{kind} {text}")

    def canonicalize(self, mechanism):
        return f"{self} by {mechanism}"


@pytest.fixture
def asked(monkeypatch):
    """Return the last arguments, by the kind of the object."""
    last = {}

    def context(**arguments):
        last["context"] = arguments
        return SimpleNamespace(step=lambda _: b"first token", complete=False)

    def credentials(**arguments):
        last["credentials"] = arguments
        return "ours"

    fake = SimpleNamespace(
        Name=Name,
        NameType=SimpleNamespace(hostbased_service="service", kerberos_principal="principal"),
        MechType=SimpleNamespace(kerberos="kerberos"),
        Credentials=credentials,
        SecurityContext=context,
    )
    monkeypatch.setitem(sys.modules, "gssapi", fake)
    return last


def test_the_ticket_of_the_process_is_taken_unless_the_login_module_names_another(asked):
    assert KerberosMechanism(**COMMON).auth_bytes() == b"first token"
    assert asked["context"] == {"name": "service kafka@broker by kerberos", "creds": None, "usage": "initiate"}
    KerberosMechanism(**COMMON, sasl_kerberos_keytab="/k", sasl_kerberos_principal="me@REALM")
    assert asked["context"]["creds"] == "ours"
    store = asked["credentials"].pop("store")
    assert asked["credentials"] == {"name": "principal me@REALM", "usage": "initiate"}
    assert (store.pop("client_keytab"), store.pop("ccache").partition(":")[0], store) == ("/k", "MEMORY", {})
    KerberosMechanism(**COMMON, sasl_kerberos_ticket_cache="/c")
    assert asked["credentials"] == {"name": None, "store": {"ccache": "/c"}, "usage": "initiate"}


@pytest.mark.parametrize(("code", "may_heal"), [(-1765328228, True), (2529639068, True), (2529639107, False)])
def test_a_ticket_that_is_refused_is_reported_and_one_of_a_centre_that_is_away_may_come(
    asked, monkeypatch, tmp_path, code, may_heal
):
    class GSSError(Exception):
        min_code = code

    def refuse(**_):
        raise GSSError(f"Major (458752): No credentials were supplied, Minor ({abs(code)}): the reason")

    gssapi = sys.modules["gssapi"]
    monkeypatch.setattr(gssapi, "Credentials", refuse)
    monkeypatch.setattr(gssapi, "exceptions", SimpleNamespace(GSSError=GSSError), raising=False)
    with pytest.raises(TokenError, match=r"^Kerberos gives no ticket for kafka@broker: the reason$") as raised:
        KerberosMechanism(**COMMON, sasl_kerberos_ticket_cache="/c")
    assert raised.value.may_heal is may_heal
    keys = tmp_path / "keys"
    login = {**COMMON, "sasl_kerberos_keytab": str(keys), "sasl_kerberos_principal": "me@REALM"}
    with pytest.raises(TokenError, match=r" with the key table '.*/keys', which does not exist: the reason$"):
        KerberosMechanism(**login)
    keys.touch()
    with pytest.raises(TokenError, match=r" with the key table '.*/keys' and the principal 'me@REALM': the reason$"):
        KerberosMechanism(**login)


def test_without_the_package_the_way_to_get_it_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(OptionError, match=r"pip install '\.\[kerberos\]'$"):
        KerberosMechanism(**COMMON)
