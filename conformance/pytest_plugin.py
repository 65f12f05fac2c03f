"""The pytest plugin: options for checks of connectors, and their report; ConnectorSuite has the tests.

pytest loads it in every run where tidegate is installed, so it imports other modules only when they are needed.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

VERDICT = pytest.StashKey[dict[str, Any]]()
"""The user property with a test's verdict, as JSON: it may travel to another process."""

_TIER, _REPORT = "--conformance-tier", "--conformance-report"
_ATTRIBUTE = "tidegate_verdict"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("tidegate", "conformance of connectors to tidegate's contracts")
    group.addoption(
        _TIER,
        action="append",
        default=[],
        metavar="TIER",
        help="Test rules of this tier only: contract, stateful, spark or faults; may be repeated.",
    )
    group.addoption(
        _REPORT,
        action="append",
        default=[],
        metavar="FILE",
        help="Write the report of connectors to a file that ends in .html or .json; may be repeated.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse invalid options."""
    config.addinivalue_line("markers", "conformance(rule, level, tier): tests a connector by a rule of tidegate.")
    tiers: list[str] = [name.lower() for name in config.getoption(_TIER)]
    files: list[str] = config.getoption(_REPORT)
    config.pluginmanager.register(_Conformance(config, tiers, _checked(config, tiers, files)), "tidegate_reports")


def _checked(config: pytest.Config, tiers: list[str], files: list[str]) -> list[Path]:
    if not tiers and not files:
        return []
    from tidegate.conformance.report.files import report_file
    from tidegate.conformance.rules import tier_named
    from tidegate.errors import OptionError

    try:
        for name in tiers:
            tier_named(_TIER, name)
        return [config.invocation_params.dir / report_file(_REPORT, file) for file in files]
    except OptionError as error:
        raise pytest.UsageError(str(error)) from None


class _Conformance:
    """The verdicts of this run, by connector and test, whose last run counts."""

    def __init__(self, config: pytest.Config, tiers: list[str], files: list[Path]) -> None:
        self._config, self._tiers, self._files = config, tiers, files
        self._verdicts: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}

    def pytest_report_header(self) -> str | None:
        parts = [f"tier {', '.join(self._tiers)}"] if self._tiers else []
        parts += [f"report {', '.join(map(str, self._files))}"] if self._files else []
        return f"conformance: {'; '.join(parts)}" if parts else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if not self._tiers:
            return
        tiers = [next((mark.kwargs.get("tier") for mark in item.iter_markers("conformance")), None) for item in items]
        wanted = [tier is None or tier in self._tiers for tier in tiers]
        config.hook.pytest_deselected(items=[item for item, keep in zip(items, wanted, strict=True) if not keep])
        items[:] = [item for item, keep in zip(items, wanted, strict=True) if keep]

    @pytest.hookimpl(hookwrapper=True)  # in the old style, which every version of pytest loads
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        outcome = yield
        report = outcome.get_result()
        if call.when == "call" and VERDICT in item.stash:
            setattr(report, _ATTRIBUTE, item.stash[VERDICT])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        suite = report.nodeid.partition("[")[0].rpartition("::")[0]
        verdict = getattr(report, _ATTRIBUTE, None)
        if verdict is not None:
            self._verdicts.setdefault((suite, verdict["connector"]), {})[report.nodeid] = verdict

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._verdicts:
            for file in self._files:
                terminalreporter.line(f"no conformance report, for no connector was tested: {file}", yellow=True)
            return
        from tidegate.conformance.report.files import write_reports
        from tidegate.conformance.report.json import verdict_from
        from tidegate.conformance.report.summary import area_lines, notes
        from tidegate.conformance.verdicts import Report, in_order

        reports = []
        for (suite, connector), verdicts in self._verdicts.items():
            report = Report(connector, in_order(map(verdict_from, verdicts.values())))
            terminalreporter.section(f"conformance of {connector} ({suite})")
            for line in [*area_lines(report), *notes(report)]:
                terminalreporter.line(line)
            terminalreporter.line(report.headline, **{"green" if report.conforms else "red": True})
            reports.append(report)
        for file in self._files:
            write_reports(file, reports)
            terminalreporter.line(f"conformance report: {file}")
