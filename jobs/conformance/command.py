"""Runs ``tidegate conformance``: prints verdicts on stderr as they come, the rest on stdout."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from tidegate.conformance.checker import check_connector
from tidegate.conformance.report.files import report_file, write_reports
from tidegate.conformance.report.summary import area_lines, notes
from tidegate.conformance.rules import Rule, Tier, rule_named, rules_of, tier_named
from tidegate.conformance.verdicts import Report, Status, Verdict, in_order
from tidegate.errors import OptionError
from tidegate.jobs.backfill.arguments import parse_options
from tidegate.jobs.conformance.harness_named import harness_named

__all__ = ["check_conformance"]

_EXEMPTION = "RULE=REASON, such as READ-3='ranges are whole files'"


_STYLES: Mapping[Status, str] = {
    Status.PASSED: "green",
    Status.EXEMPT: "yellow",
    Status.SKIPPED: "dim",
}
_STATUS_WIDTH = max(len(status.value) for status in Status)


def check_conformance(
    name: str, *, tiers: Sequence[str], rules: Sequence[str], exempt: Sequence[str], reports: Sequence[str]
) -> bool:
    """Check a connector, show the verdict of each rule, and return whether it conforms.

    name: the name of its harness, as MODULE:NAME.
    tiers, rules: check only these, by name and id; none: all.
    exempt: rules that are known to fail, as ID=REASON.

    Raises OptionError, one sentence, for names that do not exist and for contradictory arguments.  Ctrl-C shows what
    was found so far.
    """
    wanted = _wanted(tiers, rules)
    exemptions = parse_options("--exempt", exempt, _EXEMPTION)
    files = [report_file("--report", text) for text in reports]
    harness = harness_named(name)
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
    for file in files:
        write_reports(file, [report])
        _output().print(file.absolute())
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
    output = _output()
    for explanation in report.explanations:
        output.print(explanation, end="\n\n\n")
    for line in [*area_lines(report), *notes(report)]:
        output.print(line)
    output.print(report.headline, style="bold green" if report.conforms else "bold red")


def _output() -> Console:
    return Console(highlight=False, markup=False, soft_wrap=True)


def _wanted(tiers: Iterable[str], rules: Iterable[str]) -> list[Rule]:
    """Return the wanted rules, in the order of checks.  Raises OptionError if there are none."""
    of_tiers = rules_of([tier_named("--tier", name) for name in tiers] or Tier)
    named = {rule_named(rule_id).id for rule_id in rules}
    chosen = [rule for rule in of_tiers if not named or rule.id in named]
    if not chosen:
        raise OptionError("there is nothing to check: --tier and --rule leave no rule")
    return chosen
