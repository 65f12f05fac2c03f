"""Any data source of PySpark is judged by rules of its own: correct ones keep them, and each rule finds its sin."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tests.conformance.data_source.orders import ArrowOrdersReader, CsvSource, OrdersHarness, SimpleOrdersHarness
from tests.conformance.mutants.data_sources import sinful
from tests.test_layers import imported
from tidegate.conformance import DataSourceHarness, DataSourceSuite, check_data_source
from tidegate.conformance.data_source.lab import SourceLab
from tidegate.conformance.lab import spark as spark_of_the_kit

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "data-sources.md"


class TestOrders(DataSourceSuite):
    @pytest.fixture
    def harness(self):
        return OrdersHarness


def test_a_simple_reader_keeps_the_rules(spark):
    report = check_data_source(SimpleOrdersHarness, only=["SOURCE-1", "STREAM-1", "STREAM-4", "STREAM-5", "STREAM-9"])
    report.raise_for_failures()
    assert [verdict.text for verdict in report if verdict.text] == ["a SimpleDataSourceStreamReader has no stop()"]


def test_a_source_of_arrow_batches_keeps_the_rules_of_rows(spark):
    check_data_source(sinful(batch=ArrowOrdersReader), only=["BATCH-1", "SOURCE-3"]).raise_for_failures()


def test_the_harness_of_the_page(spark, monkeypatch):
    monkeypatch.setitem(sys.modules, "orders_source", ModuleType("orders_source"))
    sys.modules["orders_source"].OrdersSource = CsvSource
    names = {}
    exec(PAGE.read_text().split("```python\n")[1].partition("```")[0], names)  # noqa: S102 - it is the page's
    check_data_source(names["OrdersHarness"], only=["BATCH-1", "BATCH-4"]).raise_for_failures()


def test_a_source_that_only_makes_up_rows_has_few_rules(spark):
    class MadeUp(OrdersHarness):
        add_rows = DataSourceHarness.add_rows

    ends = {verdict.rule.id: verdict.text for verdict in check_data_source(MadeUp, only=["BATCH-1", "STREAM-7"])}
    assert set(ends.values()) == {"MadeUp has no ROWS: the harness has no add_rows()"}


def test_a_session_for_it_is_without_unix_sockets_over_which_its_workers_would_print_errors(monkeypatch):
    def missing():
        raise PySparkRuntimeError(errorClass="NO_ACTIVE_OR_DEFAULT_SESSION", messageParameters={})

    conf = SimpleNamespace(get=lambda *_: None, set=lambda *_: None, unset=lambda _: None)
    session, settings = SimpleNamespace(conf=conf), {}
    monkeypatch.setattr(SparkSession, "active", missing)
    monkeypatch.setattr(spark_of_the_kit, "_started", lambda of: settings.update(of) or session)
    lab = SourceLab(OrdersHarness)
    assert lab.spark is session
    lab.close()
    assert settings["spark.python.unix.domain.socket.enabled"] == "false"


def test_nothing_here_knows_the_contract_of_connectors():
    room = ROOT / "conformance"
    paths = [*(room / "data_source").glob("*.py"), room / "checks" / "source.py", room / "checks" / "stream.py"]
    used = {name for path in paths for name in imported(path)}
    contract = (
        "tidegate.connector",
        "tidegate.add_ons",
        "tidegate.conformance.harness",
        "tidegate.conformance.lab.lab",
    )
    assert len(paths) == 5
    assert [name for name in used if name.startswith(contract)] == []
