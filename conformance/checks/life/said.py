"""LIFE: options, messages and secrets of a connector."""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from urllib.parse import quote

from tidegate.alignment.splits import SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.errors import NotApplicableError
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, Split
from tidegate.conformance.lab.query import Query
from tidegate.conformance.lab.refusals import refusal
from tidegate.conformance.rules import Level
from tidegate.errors import OptionError
from tidegate.sources.options import option_names
from tidegate.sources.source import Source

__all__ = [
    "check_a_place_that_is_gone_is_an_error_of_tidegate",
    "check_an_error_is_one_sentence",
    "check_malformed_values_are_refused",
    "check_options_have_any_case",
    "check_secrets_stay_hidden",
    "check_the_name_of_what_is_read",
    "check_unknown_options_are_refused",
]

_MALFORMED = {
    "maxDrift": "ten",
    "discoveryInterval": "5",
    "failOnDataLoss": "perhaps",
    "minPartitions": "many",
    "alignment": "sideways",
    "lateSplits": "never",
}
_NONSENSE = "no such value"
_QUIET_LOGGERS = ("numba",)  # logs megabytes while it compiles, and knows nothing of sources


@rule(
    "LIFE-8",
    "unknown options are refused",
    level=Level.SHOULD,
    purpose="Otherwise a misspelled option is ignored, and people find out in production, if ever.",
    tested="Every option of the source is given with its last letter doubled.",
    passes="The source raises OptionError in one sentence. It names the option as it was given, and the one that was "
    "meant.",
    look_at=(
        "fields_from_options(): pass on unknown options",
        "model_config of the subclass: keep extra='forbid'",
        "valid_options(): list all that fields_from_options() takes",
        "source() of the harness: pass on the options that it is given",
    ),
    source="Source.from_options",
    waits=False,
)
def check_unknown_options_are_refused(lab: Lab) -> None:
    """Misspell every option."""
    for option in _options(lab):
        misspelled = option + option[-1]
        error = refusal(lab, f"the option {misspelled!r}", lambda: lab.source(**{misspelled: "1"}), OptionError)  # noqa: B023
        lab.expect(error is not None, f"the unknown option {misspelled!r} is taken without a word")
        lab.expect(
            misspelled.lower() in str(error).lower() and f"'{option}'" in str(error),
            f"the option {misspelled!r} is refused without naming it or {option!r}: {error}",
        )


@rule(
    "LIFE-9",
    "malformed values are refused",
    level=Level.SHOULD,
    purpose="A value that is misread, or that ends in a stack trace, costs an afternoon.",
    tested=f"Some options that all sources have get malformed values. All other options get {_NONSENSE!r}.",
    passes="For each malformed value, the source raises OptionError in one sentence that names the option and the "
    "value. Any other option may take the text, or raise an OptionError that names the option.",
    look_at=("validators that raise other errors than ValueError", "types of fields: an int is not a text"),
    source="Source.from_options",
    waits=False,
)
def check_malformed_values_are_refused(lab: Lab) -> None:
    """Give nonsense to every option."""
    for option in _options(lab):
        value = _MALFORMED.get(option, _NONSENSE)
        error = refusal(lab, f"{option}={value!r}", lambda: lab.source(**{option: value}), OptionError)  # noqa: B023
        if option in _MALFORMED:
            lab.expect(error is not None, f"{option}={value!r} is taken without a word")
            lab.expect(value in str(error), f"{option}={value!r} is refused without naming the value: {error}")
        # An option of the connector may take any text.
        if error is not None:
            lab.expect(
                option.lower() in str(error).lower(), f"{option}={value!r} is refused without naming it: {error}"
            )


@rule(
    "LIFE-10",
    "options may be written in any case",
    level=Level.SHOULD,
    purpose="Spark's options are case-insensitive, and SQL lowers them. They must mean the same in any case.",
    tested="The kit makes a source with option names as documented, in upper case and in lower case.",
    passes="The sources are equal.",
    look_at=("a case-sensitive look-up in from_options() of the subclass, or in the harness",),
    source="Source.from_options: names are case-insensitive",
    waits=False,
)
def check_options_have_any_case(lab: Lab) -> None:
    """Write options in other cases."""
    options = {"maxDrift": "10 seconds", "failOnDataLoss": "false", "minPartitions": "3", **lab.harness.start_at_end}
    documented = lab.source(**options)
    for case in (str.lower, str.upper):
        respelled = {case(name): value for name, value in options.items()}
        lab.expect(documented == lab.source(**respelled), f"the options {', '.join(respelled)} mean something else")


@rule(
    "LIFE-11",
    "an error is one sentence",
    level=Level.SHOULD,
    purpose="People read errors at night. A KeyError of some library does not help them.",
    tested="A reader reads a split that never existed. Where possible, it also reads deleted rows and a deleted split.",
    passes="Every error is one of tidegate, in one sentence. Deleted rows and a deleted split must raise one. For "
    "deleted rows, it names the split.",
    look_at=("errors of the client that are not mapped: use raise ... from", "ids that are parsed without a check"),
    source="SplitReader.read: raises; errors.py",
)
def check_an_error_is_one_sentence(lab: Lab) -> None:
    """Read rows that do not exist."""
    split = lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(4)))
    source = lab.source()
    enumerator = lab.enumerator(source)
    there = lab.everything(enumerator)[0]
    wanted = SplitRange("never was", 0, 1)
    refusal(lab, "reading a split that never was", lambda: lab.read(source, [wanted], enumerator))
    if lab.can(Ability.RETENTION):
        split.trim(2)
        error = refusal(lab, "reading rows that were deleted", lambda: lab.read(source, [there], enumerator))
        lab.expect(error is not None, f"rows of {there.split_id} that were deleted are left out without a word")
        lab.expect(there.split_id in str(error), f"the error does not name the split {there.split_id}: {error}")
    if lab.can(Ability.REMOVABLE_SPLITS):
        split.remove()
        error = refusal(lab, "reading a split that was deleted", lambda: lab.read(source, [there], enumerator))
        lab.expect(error is not None, f"the split {there.split_id}, which was deleted, is left out without a word")


@rule(
    "LIFE-12",
    "secrets stay hidden",
    purpose="Offsets, logs and errors are shared, copied and kept for years. Everybody who sees them knows a "
    "password in them.",
    tested="A query runs, and other calls fail. The kit keeps all texts: of source, enumerator and reader, logs at "
    "DEBUG, offsets, progress, and errors with their causes.",
    passes="None of these texts contains a secret of the harness.",
    look_at=(
        "fields that hold secrets: set repr=False, which also hides them in errors",
        "addresses with a password in logs and errors",
        "options in the snapshot",
    ),
    witness=("an offset", "an error"),
    source="errors.py: a message never holds a secret; Source.reads",
)
def check_secrets_stay_hidden(lab: Lab) -> None:
    """Look for secrets in all texts of a connector."""
    secrets = [shape for secret in lab.harness.secrets for shape in {secret, quote(secret, safe="")} if shape]
    if not secrets:
        raise NotApplicableError("the harness names no secrets")
    for where, text in _said(lab, secrets):
        leaked = [number for number, secret in enumerate(secrets) if secret in text]
        shown = text
        for secret in secrets:
            shown = shown.replace(secret, "*****")
        lab.expect(not leaked, f"a secret is in {where}: {shown[:400]}")


@rule(
    "LIFE-13",
    "what is read has a name",
    level=Level.SHOULD,
    purpose="`tidegate watch` and the progress show what a source reads. The name of the connector is its format in "
    "Spark.",
    tested="The kit looks at the connector's name and at `reads`.",
    passes="The name begins with a letter. It has only lower-case letters, digits and underscores. `reads` is one "
    "line of at most 500 characters, and not empty.",
    look_at=("the class attribute connector", "the property reads"),
    source="Source.connector; Source.reads: it must hold no secret",
    waits=False,
)
def check_the_name_of_what_is_read(lab: Lab) -> None:
    """Look at names."""
    source = lab.source()
    lab.expect(re.fullmatch("[a-z][a-z0-9_]*", source.connector), f"the connector's name is {source.connector!r}")
    reads = source.reads
    lab.expect(isinstance(reads, str) and reads.strip(), f"reads is {reads!r}, which shows nothing")
    lab.expect(
        "\n" not in reads and len(reads) <= 500, f"reads is not one line of at most 500 characters: {reads[:200]!r}"
    )


@rule(
    "LIFE-19",
    "a place that is gone is an error of tidegate",
    level=Level.SHOULD,
    purpose="Users know tidegate's errors, but not those of the client on which a connector is built.",
    tested="A harness fills a place and closes it. Then an enumerator discovers its splits, and a reader reads its "
    "rows.",
    passes="Discovery and reading each raise an error of tidegate in one sentence. If the place is still there, they "
    "may succeed.",
    look_at=("an error of the client that is not mapped, such as one at the first connection",),
    source="errors.py",
)
def check_a_place_that_is_gone_is_an_error_of_tidegate(lab: Lab) -> None:
    """Look at a place that is closed."""
    if lab.can(Ability.FAULT_DISCONNECT):
        raise NotApplicableError("FAULT-1 lets the other side go away, and come back")
    other = lab.make()
    lab.tell("make another place, fill it, and close it")
    Split(0, other.create_split(), lab.tell).append(BEGIN_MS)
    source = other.source({})
    with closing(source.as_stream().enumerator(None)) as enumerator:
        there = lab.everything(enumerator, 1)
    other.close()
    with closing(source.as_stream().enumerator(None)) as enumerator:
        refusal(lab, "looking for splits of a place that is gone", enumerator.discover)
    refusal(lab, "reading a place that is gone", lambda: lab.read(source, there))


def _options(lab: Lab) -> list[str]:
    """Return the source's options that can be given by name; a star stands for many, and a dot for part of one."""
    return [name for name in lab.source().valid_options() if name.isidentifier()]


def _said(lab: Lab, secrets: list[str]) -> Iterator[tuple[str, str]]:
    """Yield all texts of a connector, each with its place."""
    rows = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS).rows
    with _logged() as lines:
        source = lab.source(maxDrift="10 seconds")
        yield "repr(source)", repr(source)
        yield "str(source)", str(source)
        yield "reads", source.reads
        yield "repr(reader)", repr(source.reader(None))
        query = Query(lab, source)
        query.run_until_read(rows)
        report = query.running.source_progress()
        query.stop()
        for offset in query.offsets:
            lab.saw("an offset")
            yield "an offset", offset
        yield "a report", json.dumps(report)
        enumerator = lab.enumerator(source)
        lab.discovered(enumerator)
        yield "repr(enumerator)", repr(enumerator)
        never = SplitRange("never was", 0, 1)
        calls = {
            "reading what never was": lambda: lab.read(source, [never], enumerator),
            **_refused(lab, source, secrets),
        }
        for what, call in calls.items():
            if (printed := _printed(call)) is not None:
                lab.saw("an error")
                yield f"the error of {what}", printed
        enumerator.close()
    for line in lines:
        yield "a log", line


def _refused(lab: Lab, source: Source, secrets: list[str]) -> dict[str, Callable[[], object]]:
    """Return calls that are most likely refused: with wrong options, some of which hold a secret."""
    calls: dict[str, Callable[[], object]] = {"an unknown option": lambda: lab.source(noSuchOption="1")}
    for field, option in option_names(type(source)).items():
        value = getattr(source, field, None)
        if isinstance(value, str) and any(secret in value for secret in secrets):
            calls[f"a malformed {option}"] = partial(lab.harness.source, {option: f"\n{value}\n"})
    return calls


def _printed(call: Callable[[], object]) -> str | None:
    """Return the printed text of a call's error, with all its causes; None: there is none."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it would be printed
        return "".join(traceback.format_exception(error))
    return None


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Keep all that is logged, at any level."""
    lines: list[str] = []

    class _Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    root, keeper = logging.getLogger(), _Keeper()
    quiet = [logging.getLogger(name) for name in _QUIET_LOGGERS]
    levels = [(logger, logger.level) for logger in (root, logging.getLogger("tidegate"), *quiet)]
    root.addHandler(keeper)
    for logger, _ in levels:
        logger.setLevel(logging.WARNING if logger in quiet else logging.DEBUG)
    try:
        yield lines
    finally:
        for logger, level in levels:
            logger.setLevel(level)
        root.removeHandler(keeper)
