"""The option ``kafka.bootstrap.servers``."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

from tidegate.errors import OptionError

__all__ = ["parse_servers"]

_LARGEST_PORT = 65_535
_LISTENER = re.compile("^[A-Z0-9_]+://")  # as brokers advertise it; a URL such as http://broker:9092 is no server
_LOGIN = re.compile(r"^([A-Za-z0-9_+.-]+://)?.*@", re.DOTALL)


def parse_servers(text: str) -> str:
    """Return the servers as kafka-python reads them, without blanks and the name of a listener before ``://``.

    Raises OptionError, which never shows a login.
    """
    servers = [server.strip() for server in text.split(",") if server.strip()]
    wrong = (
        text if not servers else next((server for server in servers if not _is_server(_LISTENER.sub("", server))), None)
    )
    if wrong is not None:
        has_login = "@" in text  # a password may hold a comma: then no part may be shown that is before the last @
        shown = _LOGIN.sub(r"\1", text) if has_login else wrong
        hint = "; a login goes into kafka.sasl.plain.username and kafka.sasl.plain.password" if has_login else ""
        raise OptionError(
            f"the option 'kafka.bootstrap.servers' is {shown!r}: expected host:port, such as "
            f"broker:9092 or [::1]:9092, several separated by commas; the port is a number up to {_LARGEST_PORT}{hint}"
        )
    return ",".join(_LISTENER.sub("", server) for server in servers)


def _is_server(text: str) -> bool:
    match = re.fullmatch(r"(?:\[(?P<address>[^\]]+)\]|(?P<name>[^\s:/@\[\]]+))(?::(?P<port>[0-9]+))?", text)
    if match is None:
        return _is_ipv6(text)
    return (match["name"] is not None or _is_ipv6(match["address"])) and 0 < int(match["port"] or 1) <= _LARGEST_PORT


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
