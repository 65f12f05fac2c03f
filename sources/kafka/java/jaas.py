r"""The value of ``sasl.jaas.config``: the part of Kafka's syntax that is in use, and nothing that Java reads otherwise.

Not read are comments, escaped letters and digits such as ``\n`` and ``\101``, and values without quotation marks that
are more than a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The class of a login module, and its options, which ``repr`` does not show because they hold secrets."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def kind(self) -> str:
        """The name of the class without its package, which companies change when they repack Kafka."""
        return self.name.rpartition(".")[2]


def parse_jaas(text: str) -> LoginModule:
    """Return the one login module of a ``sasl.jaas.config``.

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
    return LoginModule(module["name"], options)
