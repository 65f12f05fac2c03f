"""The options of a login: ``kafka.sasl.*``, with the login module of ``kafka.sasl.jaas.config``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from tidegate.errors import OptionError
from tidegate.sources.kafka.java.jaas import LoginModule, parse_jaas

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD_MECHANISMS = ("PLAIN", *SCRAM)
MECHANISMS = (*PASSWORD_MECHANISMS, "GSSAPI", "OAUTHBEARER")

_KAFKAS_OWN = "OAuthBearerLoginCallbackHandler"


def either(names: Sequence[str]) -> str:
    """Return the names as a choice, in words."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def take_login_module(connecting: MutableMapping[str, Any]) -> None:
    """Replace ``sasl_jaas_config`` by its content, under the names of the equivalent options.

    Raises OptionError for a text that Java would refuse, and for a login module of another mechanism.
    """
    text = connecting.pop("sasl_jaas_config", None)
    if text is None:
        return
    try:
        module = parse_jaas(text)
    except ValueError as error:
        raise OptionError(f"the option 'kafka.sasl.jaas.config' is malformed: {error}") from None
    mechanisms, take = _MODULES.get(module.kind, ((), _of_password))
    if not mechanisms:
        raise OptionError(
            f"the option 'kafka.sasl.jaas.config' names the login module {module.name!r}: expected "
            f"{either(list(_MODULES))}"
        )
    if module.kind == "Krb5LoginModule":
        connecting.setdefault("sasl_mechanism", "GSSAPI")  # Java's default
    mechanism = connecting.get("sasl_mechanism")
    if mechanism is not None and mechanism not in mechanisms:
        raise OptionError(
            f"the option 'kafka.sasl.mechanism' is {mechanism}, but 'kafka.sasl.jaas.config' names {module.kind}, "
            f"which is for {either(mechanisms)}"
        )
    taken = take(module)
    if twice := next((name for name in taken if name in connecting), None):
        raise OptionError(f"the option 'kafka.{twice.replace('_', '.')}' is given, and in 'kafka.sasl.jaas.config' too")
    connecting.update(taken)


def _of_password(module: LoginModule) -> dict[str, Any]:
    login: dict[str, Any] = {f"sasl_plain_{name}": module.options.get(name, "") for name in ("username", "password")}
    for name in ("username", "password"):
        if not login[f"sasl_plain_{name}"]:
            raise OptionError(f"the option 'kafka.sasl.jaas.config' has no {name} for {module.kind}")
    if _is_true(module, "tokenauth"):
        login["sasl_delegation_token"] = True
    return login


def _of_kerberos(module: LoginModule) -> dict[str, Any]:
    options = module.options
    keytab = options.get("keyTab") if _is_true(module, "useKeyTab") else None
    if _is_true(module, "useKeyTab") and not (keytab and options.get("principal")):
        missing = "principal" if keytab else "keyTab"
        raise OptionError(f"the option 'kafka.sasl.jaas.config' says useKeyTab, but {missing} is missing")
    given = {
        "sasl_kerberos_service_name": options.get("serviceName"),
        "sasl_kerberos_principal": options.get("principal"),
        "sasl_kerberos_keytab": keytab and keytab.removeprefix("file://").removeprefix("FILE:"),
        "sasl_kerberos_ticket_cache": options.get("ticketCache") if _is_true(module, "useTicketCache") else None,
    }
    return {name: value for name, value in given.items() if value}


def _of_tokens(module: LoginModule) -> dict[str, Any]:
    if any(name.startswith("unsecuredLogin") for name in module.options):
        raise OptionError(
            "the option 'kafka.sasl.jaas.config' asks for unsecured tokens, which prove nothing: set "
            "kafka.sasl.oauthbearer.token.endpoint.url, or name a function that returns a token in "
            "kafka.sasl.login.callback.handler.class"
        )
    return {"sasl_oauth_options": dict(module.options)}


_MODULES: dict[str, tuple[tuple[str, ...], Callable[[LoginModule], dict[str, Any]]]] = {
    "PlainLoginModule": (("PLAIN",), _of_password),
    "ScramLoginModule": (SCRAM, _of_password),
    "OAuthBearerLoginModule": (("OAUTHBEARER",), _of_tokens),
    "Krb5LoginModule": (("GSSAPI",), _of_kerberos),
}


def _is_true(module: LoginModule, option: str) -> bool:
    return module.options.get(option, "").lower() == "true"


def callback_name(text: str) -> str | None:
    """Return the function that creates tokens, as ``package:function``; None for Java's own, which ours replace.

    Raises ValueError for other classes of Java.
    """
    if text.rpartition(".")[2] == _KAFKAS_OWN:
        return None
    package, _, function = text.partition(":")
    if not function.isidentifier() or not all(part.isidentifier() for part in package.split(".")):
        raise ValueError("expected a Python function that returns a token, as package:function")
    return text


def check_login(connecting: Mapping[str, Any]) -> None:
    """Raise OptionError if a login lacks something; otherwise the first connection would time out."""
    protocol = connecting.get("security_protocol", "PLAINTEXT")
    if not protocol.startswith("SASL_"):
        return
    mechanism = connecting.get("sasl_mechanism")
    if mechanism is None:
        raise OptionError(
            f"the option 'kafka.security.protocol' is {protocol}, but 'kafka.sasl.mechanism' is missing: "
            f"expected {either(MECHANISMS)}"
        )
    needed = ("sasl.plain.username", "sasl.plain.password") if mechanism in PASSWORD_MECHANISMS else ()
    missing = [f"'kafka.{name}'" for name in needed if not connecting.get(name.replace(".", "_"))]
    if missing:
        raise OptionError(
            f"the option 'kafka.sasl.mechanism' is {mechanism}, but {' and '.join(missing)} "
            f"{'are' if len(missing) > 1 else 'is'} missing"
        )
    if mechanism == "OAUTHBEARER":
        _check_tokens(connecting)


def _check_tokens(connecting: Mapping[str, Any]) -> None:
    """Raise OptionError if there is no way to get a token."""
    url = connecting.get("sasl_oauthbearer_token_endpoint_url")
    if url is None and connecting.get("sasl_login_callback_handler_class") is None:
        raise OptionError(
            "the option 'kafka.sasl.mechanism' is OAUTHBEARER, but there is no origin of tokens: set "
            "'kafka.sasl.oauthbearer.token.endpoint.url', or name a function in "
            "'kafka.sasl.login.callback.handler.class'"
        )
    if url is None or url.startswith("file:"):
        return
    options = connecting.get("sasl_oauth_options", {})
    if tls := next((option for option in options if option.startswith("ssl.")), None):
        raise OptionError(
            f"the option 'kafka.sasl.jaas.config' has {tls!r} for the token endpoint, which is checked by the system's "
            "CAs: add its CA to these, or name a file of CAs in the environment variable SSL_CERT_FILE"
        )
    for option, name in (("clientId", "client.id"), ("clientSecret", "client.secret")):
        plain = f"sasl.oauthbearer.client.credentials.{name}"
        if not (options.get(option) or connecting.get(plain.replace(".", "_"))):
            raise OptionError(
                f"the option 'kafka.sasl.oauthbearer.token.endpoint.url' is given, but 'kafka.{plain}' is missing, "
                f"and {option} in 'kafka.sasl.jaas.config' too"
            )
