r"""The options of a login: ``kafka.sasl.*``, with the login module of ``kafka.sasl.jaas.config``.

Of JAAS only the part of Kafka's syntax is read that is in use, and nothing that Java reads otherwise.  Refused are
comments, escaped letters and digits such as ``\n`` and ``\101``, and values of several words without quotation marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from tidegate.errors import OptionError

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD_MECHANISMS = ("PLAIN", *SCRAM)
MECHANISMS = (*PASSWORD_MECHANISMS, "GSSAPI", "OAUTHBEARER")

_KAFKAS_OWN = "OAuthBearerLoginCallbackHandler"

_WORD = "[A-Za-z_$][A-Za-z0-9_$.-]*"
_MODULE = re.compile(
    rf"\s*(?P<name>{_WORD})\s+(?:required|requisite|sufficient|optional)(?=[\s;])", re.IGNORECASE | re.ASCII
)
_OPTION = re.compile(
    rf"""\s+(?P<key>{_WORD})\s*=\s*(?:(?P<word>{_WORD})
    |(?P<quote>["'])(?P<text>(?:\\[^A-Za-z0-9\r\n]|(?!(?P=quote))[^\\\r\n])*)(?P=quote))""",
    re.ASCII | re.VERBOSE,
)
_END = re.compile(r"\s*;\s*", re.ASCII)


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
        name, options = parse_jaas(text)
    except ValueError as error:
        raise OptionError(f"the option 'kafka.sasl.jaas.config' is malformed: {error}") from None
    kind = name.rpartition(".")[2]  # companies repack Kafka in other packages
    mechanisms, take = _MODULES.get(kind, ((), _of_password))
    if not mechanisms:
        raise OptionError(
            f"the option 'kafka.sasl.jaas.config' names the login module {name!r}: expected {either(list(_MODULES))}"
        )
    if kind == "Krb5LoginModule":
        connecting.setdefault("sasl_mechanism", "GSSAPI")  # Java's default
    mechanism = connecting.get("sasl_mechanism")
    if mechanism is not None and mechanism not in mechanisms:
        raise OptionError(
            f"the option 'kafka.sasl.mechanism' is {mechanism}, but 'kafka.sasl.jaas.config' names {kind}, "
            f"which is for {either(mechanisms)}"
        )
    taken = take(options)
    if twice := next((name for name in taken if name in connecting), None):
        raise OptionError(f"the option 'kafka.{twice.replace('_', '.')}' is given, and in 'kafka.sasl.jaas.config' too")
    connecting.update(taken)


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Return the class of the one login module of a ``sasl.jaas.config``, and its options.

    Raises ValueError, which says what was expected and shows no value.
    """
    module = _MODULE.match(text)
    if module is None:
        raise ValueError("expected the class of a login module, and after it 'required'")
    options: dict[str, str] = {}
    at = module.end()
    while (option := _OPTION.match(text, at)) is not None:
        options[option["key"]] = option["word"] or re.sub(r"\\(.)", r"\1", option["text"])
        at = option.end()
    end = _END.match(text, at)
    if end is None:
        after = f" after {list(options)[-1]!r}" if options else ""
        raise ValueError(
            f'expected name="value"{after}, or the semicolon at the end; only words need no quotation marks, and a '
            "backslash needs a second one"
        )
    if end.end() < len(text):
        raise ValueError("it names more than one login module")
    return module["name"], options


def _of_password(options: Mapping[str, str]) -> dict[str, Any]:
    given = {f"sasl_plain_{name}": options.get(name) for name in ("username", "password")}
    login: dict[str, Any] = {name: value for name, value in given.items() if value}
    return {**login, "sasl_delegation_token": True} if _is_true(options, "tokenauth") else login


def _of_kerberos(options: Mapping[str, str]) -> dict[str, Any]:
    keytab = options.get("keyTab") if _is_true(options, "useKeyTab") else None
    if _is_true(options, "useKeyTab") and not (keytab and options.get("principal")):
        missing = "principal" if keytab else "keyTab"
        raise OptionError(f"the option 'kafka.sasl.jaas.config' says useKeyTab, but {missing} is missing")
    given = {
        "sasl_kerberos_service_name": options.get("serviceName"),
        "sasl_kerberos_principal": options.get("principal"),
        "sasl_kerberos_keytab": keytab and keytab.removeprefix("file://").removeprefix("FILE:"),
        "sasl_kerberos_ticket_cache": options.get("ticketCache") if _is_true(options, "useTicketCache") else None,
    }
    return {name: value for name, value in given.items() if value}


def _of_tokens(options: Mapping[str, str]) -> dict[str, Any]:
    if any(name.startswith("unsecuredLogin") for name in options):
        raise OptionError(
            "the option 'kafka.sasl.jaas.config' asks for unsecured tokens, which prove nothing: set "
            "kafka.sasl.oauthbearer.token.endpoint.url, or name a function that returns a token in "
            "kafka.sasl.login.callback.handler.class"
        )
    return {"sasl_oauth_options": dict(options)}


_MODULES: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, str]], dict[str, Any]]]] = {
    "PlainLoginModule": (("PLAIN",), _of_password),
    "ScramLoginModule": (SCRAM, _of_password),
    "OAuthBearerLoginModule": (("OAUTHBEARER",), _of_tokens),
    "Krb5LoginModule": (("GSSAPI",), _of_kerberos),
}


def _is_true(options: Mapping[str, str], option: str) -> bool:
    return options.get(option, "").lower() == "true"


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
