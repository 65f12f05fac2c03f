"""Checks every connector that is here by every rule, and writes the reports that the documentation links.

scripts/conformance-reports
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.conformance.harnesses import KafkaHarness, S3Harness
from tidegate.conformance import check_connector
from tidegate.conformance.memory import MemoryHarness
from tidegate.conformance.report_files import write_reports
from tidegate.servers import KafkaServer, S3Server

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "docs" / "conformance-report.html"

sys.path.insert(0, str(ROOT / "examples" / "custom_connector"))


def main() -> None:
    """Exit with 1 if one of them does not conform."""
    from harness import OutboxHarness

    with ExitStack() as servers:
        kafka, s3 = servers.enter_context(KafkaServer()), servers.enter_context(S3Server())
        harnesses = [MemoryHarness, partial(KafkaHarness, kafka), partial(S3Harness, s3), OutboxHarness]
        reports = []
        for harness in harnesses:
            reports.append(check_connector(harness, on_verdict=lambda v: print(v.rule.id, v.status.value, flush=True)))
            print(reports[-1].headline, flush=True)
            for verdict in reports[-1].failures:
                print(verdict.explained(), flush=True)
    write_reports(REPORT, reports)
    sys.exit(not all(report.conforms for report in reports))


if __name__ == "__main__":
    main()
