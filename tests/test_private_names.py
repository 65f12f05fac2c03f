"""The private names of kafka-python and PySpark that tidegate uses: in one module for each package, and all there."""

import ast
import inspect
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("alignment", "windows", "readers", "enumerators", "sources", "conformance", "jobs", "servers", "src")

# The public modules of each package; the deep ones among them define classes that the documentation names.
PUBLIC = {
    "kafka": {"kafka", "kafka.admin", "kafka.errors", "kafka.structs"},
    "pyspark": {
        *("pyspark", "pyspark.errors", "pyspark.sql", "pyspark.sql.datasource", "pyspark.sql.functions"),
        *("pyspark.sql.avro.functions", "pyspark.sql.streaming", "pyspark.sql.types"),
        *(f"pyspark.sql.streaming.{name}" for name in ("datasource", "listener", "query", "readwriter")),
        "pyspark.sql.streaming.stateful_processor",
    },
}
PRIVATE_NAMES = {"pyspark.cloudpickle", "pyspark.daemon"}  # modules that are imported by name
HOLDERS = {"kafka": "src/tidegate/kafka_private.py", "pyspark": "src/tidegate/spark_private.py"}

# The attributes that are used of private names, and names that no import shows.
KAFKA = {
    "kafka.admin.client.KafkaAdminClient": ("_manager",),
    "kafka.net.sasl.gssapi.SaslMechanismGSSAPI": (
        *("_client_ctx", "_is_authenticated", "_is_done", "_next_token", "auth_id", "gssapi_name", "auth_bytes"),
        *("is_authenticated", "is_done", "receive"),
    ),
    "kafka.net.sasl.oauth.AbstractTokenProvider": ("extensions", "token"),
    "kafka.net.sasl.oauth.SaslMechanismOAuth": ("token_provider",),
    "kafka.net.sasl.scram.SaslMechanismScram": ("_scram_client",),
    "kafka.net.sasl.scram.ScramClient": ("auth_message", "create_salted_password", "first_message", "nonce", "user"),
    "kafka.protocol.broker_version_data.BrokerVersionData": ("api_version",),
    "kafka.protocol.consumer.ListOffsetsRequest": ("ListOffsetsTopic",),
    "kafka.protocol.consumer.OffsetCommitRequest": ("OffsetCommitRequestTopic",),
    "kafka.protocol.consumer.OffsetFetchRequest": ("OffsetFetchRequestTopic",),
    "kafka.protocol.consumer.OffsetForLeaderEpochRequest": ("OffsetForLeaderTopic",),
    "kafka.protocol.metadata.ApiVersionsRequest": ("API_KEY", "encode", "header", "max_version", "with_header"),
    "kafka.protocol.producer.ProduceRequest": ("TopicProduceData",),
    "kafka.record.default_records.DefaultRecordBatchBuilder": ("HEADER_STRUCT", "_buffer", "append", "build"),
    "kafka.record.legacy_records.LegacyRecordBatch": (
        *("CODEC_MASK", "LOG_OVERHEAD", "_buffer", "_decompress", "_read_all_headers", "_read_header"),
        *("_read_key_value", "base_offset", "compression_type", "magic", "validate_crc"),
    ),
}
PYSPARK = {
    "pyspark.cloudpickle": ("CloudPickler", "dumps", "loads"),
    "pyspark.core.context.SparkContext": ("_jsc", "_jvm"),
    "pyspark.daemon": ("gc", "manager", "traceback"),
    "pyspark.sql.classic.dataframe.DataFrame": ("_jdf",),
    "pyspark.sql.session.SparkSession": ("_jsparkSession", "_jvm"),
    "pyspark.sql.streaming.listener.StreamingQueryListener": ("_jlistener",),
    "pyspark.sql.streaming.query.StreamingQuery": ("_jsq",),
    "pyspark.sql.streaming.stateful_processor.StatefulProcessorHandle": ("_statefulProcessorApiClient",),
    "pyspark.sql.streaming.stateful_processor_api_client.StatefulProcessorApiClient": (
        *("_deserialize_from_bytes", "_receive_proto_message"),
    ),
    "pyspark.sql.streaming.transform_with_state_driver_worker": (),
    "pyspark.sql.utils.is_remote": (),
}
TABLES = {"kafka": KAFKA, "pyspark": PYSPARK}
DISTRIBUTIONS = {"kafka": "kafka-python", "pyspark": "pyspark"}


def moved(names):
    """Return the names, with those of attributes, that are not there."""
    for name, attributes in names.items():
        try:
            found = inspect.getattr_static(import_module(name.rpartition(".")[0]), name.rpartition(".")[2], None)
            found = found or import_module(name)
        except ImportError:
            yield name
            continue
        text = inspect.getsource(found) if inspect.isclass(found) else ""
        yield from (f"{name}.{a}" for a in attributes if not hasattr(found, a) and f"self.{a}" not in text)


@pytest.mark.parametrize("package", ["kafka", "pyspark"])
def test_every_private_name_is_where_it_was(package):
    imported = {name for name in private((ROOT / HOLDERS[package]).read_text(), package) if name.startswith(package)}
    assert len(imported) > 5
    missing = list(moved(dict.fromkeys(imported, ()) | TABLES[package]))
    release = f"{DISTRIBUTIONS[package]} {version(DISTRIBUTIONS[package])}"
    assert not missing, f"{release} has moved {', '.join(missing)}: change {HOLDERS[package]}"


def private(text, package):
    """Return each name of a module that is imported from a private part of a package, or read from inside it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self":
            inside = node.attr.startswith("_j") if package == "pyspark" else node.attr == "_manager"
            if inside:
                yield node.attr
            continue
        else:
            continue
        for name in names:
            module = name if isinstance(node, ast.Import) else node.module
            if name.startswith(f"{package}.") and (module not in PUBLIC[package] or name in PRIVATE_NAMES):
                yield name


@pytest.mark.parametrize("package", ["kafka", "pyspark"])
def test_private_names_are_used_in_one_module(package):
    found = {
        str(path.relative_to(ROOT)): [*private(path.read_text(), package)]
        for folder in (*PRODUCT, "benchmarks", "examples", "scripts")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not any(part.startswith(".") for part in path.parts)
    }
    assert found.pop(HOLDERS[package])
    assert {path: names for path, names in found.items() if names} == {}
