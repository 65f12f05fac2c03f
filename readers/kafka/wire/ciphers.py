"""The cipher suites of TLS by the names of Java and IANA; OpenSSL has its own."""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection

from tidegate.errors import OptionError

_AES = re.compile(r"AES_(\d+)_(?:CBC(?=_)_|(?=GCM))")


def choose_ciphers(context: ssl.SSLContext, suites: Collection[str]) -> None:
    """Let a context offer only the given suites, by their names in Java; if none are given, OpenSSL chooses.

    Python cannot choose among the suites of TLS 1.3, which are all strong: naming one allows all of them.

    Raises OptionError if OpenSSL supports none of them in the context's versions.
    """
    if not suites:
        return
    older = {openssl_name(suite) for suite in suites if "_WITH_" in suite}
    usable = [cipher["name"] for cipher in _all_of_tls_1_2() if cipher["name"] in older]
    may_be_new = len(older) < len(suites) and context.maximum_version != ssl.TLSVersion.TLSv1_2
    may_be_older = bool(usable) and context.minimum_version != ssl.TLSVersion.TLSv1_3
    if not (may_be_new or may_be_older):
        raise OptionError(
            f"the option 'kafka.ssl.cipher.suites' is {','.join(suites)!r}, and none of them can be used with the "
            "versions of TLS; expected names such as TLS_AES_256_GCM_SHA384 or TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        )
    if may_be_older:
        context.set_ciphers(":".join(usable))
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if not may_be_new:
        context.maximum_version = ssl.TLSVersion.TLSv1_2


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name for a suite of TLS 1.2, such as ECDHE-RSA-AES256-GCM-SHA384.

    It is correct for suites with certificates and AES or ChaCha20, which are all that Java still offers.
    """
    keys, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = _AES.sub(r"AES\1_", cipher)
    if cipher.startswith("CHACHA20"):
        cipher = cipher.removesuffix("_SHA256")
    return (cipher if keys == "RSA" else f"{keys}_{cipher}").replace("_", "-")


def _all_of_tls_1_2() -> list[ssl._Cipher]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL")
    return context.get_ciphers()
