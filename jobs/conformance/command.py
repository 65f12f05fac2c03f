"""Runs ``tidegate conformance``: prints verdicts on stderr as they come, the rest on stdout."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.text import Text

from tidegate.conformance.checker import check_connector
from tidegate.conformance.harness import HarnessFactory
from tidegate.conformance.rules import Rule, Tier, rules_of, tier_named
from tidegate.conformance.verdicts import Report, Status, Verdict, in_order, notes
from tidegate.errors import OptionError, did_you_mean
from tidegate.jobs.arguments import parse_options

_EXEMPTION = "RULE=REASON, such as READ-3='ranges are whole files'"


_STYLES: Mapping[Status, str] = {
    Status.PASSED: "green",
    Status.EXEMPT: "yellow",
    Status.SKIPPED: "dim",
}
_STATUS_WIDTH = max(len(status.value) for status in Status)


def check_conformance(name: str, *, tiers: Sequence[str], rules: Sequence[str], exempt: Sequence[str]) -> bool:
    """Check a connector, show the verdict of each rule, and return whether it conforms.

    name: the name of its harness, as MODULE:NAME.
    tiers, rules: check only these, by name and id; none: all.
    exempt: rules that are known to fail, as ID=REASON.

    Raises OptionError, one sentence, for names that do not exist and for contradictory arguments.  Ctrl-C shows what
    was found so far.
    """
    wanted = rules_of([tier_named("--tier", name) for name in tiers] or Tier, rules)
    exemptions = parse_options("--exempt", exempt, _EXEMPTION)
    harness = _harness(name)
    # Rules provoke planner warnings, which a logger without a handler would write between the verdicts.
    logging.getLogger("tidegate").addHandler(logging.NullHandler())
    live = _Live(wanted)
    try:
        with live.status:
            report = check_connector(
                harness, only=[rule.id for rule in wanted], exempt=exemptions, on_verdict=live.tell
            )
    except KeyboardInterrupt:
        if live.verdicts:
            _show(Report(name, in_order(live.verdicts)))
        raise
    _show(report)
    return report.conforms


class _Live:
    """Shows the current rule and its verdict on stderr."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.verdicts: list[Verdict] = []
        self._left = [f"{rule.id} {rule.title}" for rule in reversed(rules)]
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self.status = self._console.status(Text(self._left.pop()))

    def tell(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        rule, style = verdict.rule, _STYLES.get(verdict.status, "red")
        words = Text.assemble((f"{verdict.status.value:<{_STATUS_WIDTH}}", style), f"  {rule.id:<9} {rule.title}")
        self._console.print(words.append(f"  {verdict.seconds:.1f} s", style="dim"))
        if self._left:
            self.status.update(Text(self._left.pop()))


def _show(report: Report) -> None:
    output = Console(highlight=False, markup=False, soft_wrap=True)
    for explanation in report.explanations:
        output.print(explanation, end="\n\n\n")
    for line in notes(report):
        output.print(line)
    output.print(report.headline, style="bold green" if report.conforms else "bold red")


def _harness(name: str) -> HarnessFactory:
    """Import a harness by its name, MODULE:NAME; it may be in the current folder.

    Raises OptionError, one sentence, for a missing module or attribute, and for a module that fails on import.
    """
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise OptionError(f"{name!r} names no harness; expected MODULE:HARNESS, such as mypkg.testing:OutboxHarness")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _module(module_name)
    if not hasattr(module, attribute):
        raise OptionError(f"{module_name} has no {attribute}{did_you_mean(attribute, vars(module))}")
    harness: HarnessFactory = getattr(module, attribute)
    return harness


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise OptionError(f"there is no module {error.name!r} here or where Python looks") from None
        last = traceback.extract_tb(error.__traceback__)[-1]  # where the author's code failed
        file, line = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
        raise OptionError(
            f"importing {name!r} fails: {type(error).__name__} in {file}, line {line}: {error}"
        ) from error
