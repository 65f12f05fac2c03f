"""Runs ``tidegate conformance``: prints verdicts on stderr as they come, explanations and the result on stdout."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tidegate.conformance.checker import Report, Status, Verdict, check_connector, check_data_source
from tidegate.conformance.data_source.harness import DataSourceHarness, DataSourceHarnessFactory
from tidegate.conformance.harness import Harness, HarnessFactory
from tidegate.conformance.rules import Tier
from tidegate.errors import OptionError, did_you_mean

_STYLES: Mapping[Status, str] = {Status.PASSED: "green", Status.FAILED: "red", Status.SKIPPED: "dim"}


def check_conformance(name: str, *, tiers: Sequence[str], rules: Sequence[str]) -> bool:
    """Check a connector or a data source, show the verdict of each rule, and return whether it conforms.

    name: the name of its harness, as MODULE:NAME; a DataSourceHarness is checked by the rules for data sources.
    tiers, rules: check only these, by name and id; none: all.

    Raises OptionError, one sentence, for names that do not exist.  Ctrl-C shows what was found so far.
    """
    wanted = [_tier_named(tier) for tier in tiers] or Tier
    harness = _harness(name)
    # Rules provoke planner warnings, which a logger without a handler would write between the verdicts.
    logging.getLogger("tidegate").addHandler(logging.NullHandler())
    seen = Report(name)
    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)

    def show(verdict: Verdict) -> None:
        seen.verdicts.append(verdict)
        rule, status = verdict.rule, verdict.status
        line = Text.assemble((f"{status.value:<7}", _STYLES[status]), f"  {rule.id:<9} {rule.title}")
        why = verdict.text if status is Status.SKIPPED else f"{verdict.seconds:.1f} s"
        errors.print(line.append(f"  {why}", style="dim"))

    try:
        report = _check(harness)(harness, tiers=wanted, only=rules, on_verdict=show)
    except KeyboardInterrupt:
        if seen.verdicts:
            _explain(seen)
        raise
    _explain(report)
    return report.conforms


def _check(harness: HarnessFactory | DataSourceHarnessFactory) -> Callable[..., Report]:
    while isinstance(harness, partial):
        harness = harness.func
    return (
        check_data_source if isinstance(harness, type) and issubclass(harness, DataSourceHarness) else check_connector
    )


def _explain(report: Report) -> None:
    output = Console(highlight=False, markup=False, soft_wrap=True)
    for verdict in report.failures:
        output.print(verdict.explained(), end="\n\n\n")
    output.print(str(report), style="bold green" if report.conforms else "bold red")


def _tier_named(name: str) -> Tier:
    known = {tier.name.lower(): tier for tier in Tier}
    if name not in known:
        raise OptionError(f"--tier is {name!r}, but {', '.join(known)} are the tiers{did_you_mean(name, known)}")
    return known[name]


def _harness(name: str) -> HarnessFactory | DataSourceHarnessFactory:
    """Import a harness by its name, MODULE:NAME; it may be in the current folder.

    Raises OptionError, one sentence, for a missing module or attribute, for a module that fails on import, and for
    what makes no harness, such as the source itself or a harness without all methods.
    """
    module_name, _, attribute = name.partition(":")
    if not (module_name and attribute):
        raise OptionError(f"{name!r} names no harness; expected MODULE:HARNESS, such as mypkg.testing:OutboxHarness")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise OptionError(f"there is no module {error.name!r} here or where Python looks") from None
        last = traceback.extract_tb(error.__traceback__)[-1]  # where the author's code failed
        file, line = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
        raise OptionError(
            f"importing {module_name!r} fails: {type(error).__name__} in {file}, line {line}: {error}"
        ) from error
    if not hasattr(module, attribute):
        raise OptionError(f"{module_name} has no {attribute}{did_you_mean(attribute, vars(module))}")
    harness: HarnessFactory | DataSourceHarnessFactory = getattr(module, attribute)
    is_other_class = isinstance(harness, type) and not issubclass(harness, Harness | DataSourceHarness)
    if is_other_class or not callable(harness):
        raise OptionError(
            f"{name!r} is not a harness: name a subclass of Harness or DataSourceHarness, or a function that makes one"
        )
    if missing := sorted(getattr(harness, "__abstractmethods__", ())):
        raise OptionError(f"the harness {name!r} lacks {', '.join(missing)}")
    return harness
