"""The exporters of the page on metrics, with the progress of a source; and the dashboard that goes with them."""

import json
import re
from datetime import datetime, timedelta, timezone

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import REGISTRY, generate_latest

import tidegate
from tests.support.pages import ROOT, blocks
from tests.support.progresses import NOON, report
from tidegate.enumerators.planning.source_progress import SourceProgress

PROMETHEUS, OPENTELEMETRY = (block for block in blocks("docs/metrics.md") if block.language == "python")
COMMITTED = datetime.fromtimestamp(NOON / 1000, timezone.utc) + timedelta(hours=6)
BEHIND = SourceProgress.from_json(
    report(lateRowsTotal=17, badRecordsTotal=5, splits={"paused": 3, "reading": 1}), COMMITTED
)
WITHOUT_WATERMARK = SourceProgress.from_json(report(watermark=None, reads="payments at kafka:9092"))


@pytest.fixture
def run(monkeypatch):
    """Run an exporter; return what it has tidegate call after each batch."""

    def run(block):
        callbacks = []
        with monkeypatch.context() as patch:
            patch.setattr(tidegate, "on_progress", lambda _, callback: callbacks.append(callback), raising=False)
            block.with_own({"start_http_server(8000)": "start_http_server(0)"}).run({"spark": None})
        (callback,) = callbacks
        return callback

    return run


def test_prometheus_is_told_the_figures_of_each_source_and_the_dashboard_shows_them_all(run):
    publish = run(PROMETHEUS)
    publish("orders by country", 7, [BEHIND, WITHOUT_WATERMARK])
    told = generate_latest(REGISTRY).decode()
    labels = f'{{query="orders by country",source="{BEHIND.reads}"}}'
    assert f"tidegate_late_rows_total{labels} 17.0" in told
    assert f"tidegate_paused_splits{labels} 3.0" in told
    assert f"tidegate_rows_remaining{labels} {float(BEHIND.rows_remaining)}" in told
    assert f"tidegate_bad_records_total{labels} 5.0" in told
    assert f"tidegate_current_fetch_event_time_lag_seconds{labels} {5 * 3600.0}" in told
    assert f"tidegate_current_emit_event_time_lag_seconds{labels} {6 * 3600.0}" in told
    assert re.findall(r"^tidegate_watermark_lag_seconds\{.*\} (.*)$", told, re.MULTILINE) == [f"{6 * 3600 + 60.0}"]

    panels = json.loads((ROOT / "docs/dashboards/grafana.json").read_text())["panels"]
    shown = {re.match(r"\w+", panel["targets"][0]["expr"])[0] for panel in panels}
    assert shown == set(re.findall(r"^(tidegate_\w+)\{", told, re.MULTILINE))


def test_opentelemetry_is_told_the_figures_of_each_source(run):
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader]))
    run(OPENTELEMETRY)("orders by country", 7, [BEHIND])
    (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    told = {metric.name: metric.data.data_points[0] for metric in scope.metrics}
    assert told["tidegate.late_rows_total"].value == 17
    assert told["tidegate.rows_remaining"].value == BEHIND.rows_remaining
    assert told["tidegate.event_time_lag"].attributes == {"query": "orders by country", "source": BEHIND.reads}
