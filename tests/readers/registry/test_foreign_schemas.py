"""Values of strangers: whoever may write to a topic may register a schema that Spark cannot hold, or a worse one."""

import gc
import itertools
import json
import sys

import pyarrow as pa
import pytest

from tests.support.registered import AT, decoded, header, times
from tidegate.errors import InstallationError
from tidegate.readers.registry import schemas
from tidegate.readers.registry.avro_values import AvroValues
from tidegate.readers.registry.config import RegistryConfig
from tidegate.readers.registry.protobuf_values import ProtobufValues
from tidegate.readers.registry.schemas import RegisteredSchema, registry_of

PORTS = itertools.count(1)
VARINT_OF_AT = b"\xf6\xa1\xab\xfe\xf9b"  # AT, as Avro writes it


@pytest.fixture
def known():
    """Return a function that registers a schema as 7 and returns the registry."""

    def known(schema, kind="AVRO", references=None):
        config = RegistryConfig(f"http://127.0.0.1:{next(PORTS)}")
        text = schema if isinstance(schema, str) else json.dumps(schema)
        registry_of(config)._schemas[7] = RegisteredSchema(kind, text, references or {})
        return config

    return known


def beside(kind, *, first=True):
    """Return a schema of records with ``t``, and before or after it a field of this type."""
    fields = [{"name": "odd", "type": kind}, {"name": "t", "type": "long"}]
    return {"type": "record", "name": "Order", "fields": fields if first else fields[::-1]}


def fixed(size, **more):
    return {"type": "fixed", "name": "F", "size": size, **more}


def decimal(digits):
    return {"logicalType": "decimal", "precision": digits, "scale": 2}


NESTED = {"type": "array", "items": "int"}
for _ in range(400):
    NESTED = {"type": "array", "items": NESTED}
WIDE = "int"
for level in range(40):
    fields = [{"name": name, "type": WIDE if name == "a" else f"W{level - 1}" if level else "int"} for name in "ab"]
    WIDE = {"type": "record", "name": f"W{level}", "fields": fields}

ODD = {
    "itself": (["null", "Order"], b"\0"),
    "decimal": ({"type": "bytes", **decimal(50)}, b"\x04ab"),
    "billion digits": (fixed(2, **decimal(10**9)), b"ab"),
    "large fixed": (["null", fixed(2**40)], b"\0"),
    "large fixed decimal": (["null", fixed(2**40, **decimal(20))], b"\0"),
    "surrogate": ({"type": "record", "name": "S", "fields": [{"name": "\ud800", "type": "int"}]}, b"\x02"),
    "own name": ("int", b"\x02"),
    "symbols": ({"type": "enum", "name": "E", "symbols": ["\ud800"]}, b"\0"),
    "long name": ({"type": "record", "name": "L" * 100_000, "fields": []}, b""),
    "nested": (NESTED, b"\0"),
    "exponential": ({"type": "array", "items": WIDE}, b"\0"),
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("odd", [*ODD])
def test_a_field_that_nobody_asks_for_is_skipped_whatever_its_type(known, odd, first):
    kind, data = ODD[odd]
    schema = beside(kind, first=first)
    schema["fields"][not first]["name"] = "\ud800" if odd == "own name" else "odd"
    config = known(schema)
    value = header(7) + (data + VARINT_OF_AT if first else VARINT_OF_AT + data)
    assert times("avro:/t", config, [value, value + b"x", header(7)], "ms")[0] == [AT, None, None]
    assert decoded(config, "avro", [value, header(7)], t=pa.int64()) == [{"t": AT}, None]


@pytest.mark.parametrize("odd", ["itself", "decimal", "large fixed", "exponential", "surrogate"])
def test_a_field_that_is_asked_for_and_that_spark_cannot_hold_is_a_bad_value(known, odd):
    kind, data = ODD[odd]
    config, value = known(beside(kind)), header(7) + data + VARINT_OF_AT
    assert times("avro:/odd", config, [value], "ms")[0] == [None]
    assert decoded(config, "avro", [value], odd=pa.int64()) == [None]


@pytest.mark.parametrize(
    "schema",
    [
        "[" * 100_000,
        '"long"',
        '{"type": "record"}',
        '{"type": "record", "name": 7, "fields": []}',
        "7",
        '"\\ud800"',
        '{"type": "record", "name": "R", "fields": [{"name": "t", "type": "R"}]}',
    ],
)
def test_a_schema_that_is_none_of_a_record_makes_bad_values(known, schema):
    config, value = known(schema), header(7) + VARINT_OF_AT
    assert times("avro:/t", config, [value], "ms")[0] == [None]
    assert decoded(config, "avro", [value], ("Order",), t=pa.int64()) == [None]


def test_columns_that_differ_in_case_only_are_a_bad_value(known):
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": "long"} for name in ("AB", "ab")]}
    assert decoded(known(schema), "avro", [header(7) + VARINT_OF_AT * 2], Ab=pa.int64()) == [None]


OPTIONS = """syntax = "proto2"; import "google/protobuf/descriptor.proto";
message N {{ optional N n = 1; optional int32 v = 2; }}
extend google.protobuf.MessageOptions {{ optional N opt = 50000; }}
message M {{ option (opt).{0}v = 1; optional int64 t = 1; }}"""
MESSAGE = """syntax = "proto3"; {} message M {{ int64 t = 1; {} }}"""
CHAIN = (
    "".join(f"message L{n} {{ L{n + 1} a = 1; L{n + 1} b = 2; }} " for n in range(40)) + "message L40 { int32 v = 1; }"
)


@pytest.mark.parametrize(
    ("schema", "references", "index", "seen"),
    [
        (OPTIONS.format("n." * 50), {}, b"\x02\x02", 5),
        (OPTIONS.format("n." * 100), {}, b"\x02\x02", None),  # the compiler of 6.33 aborts
        (OPTIONS.format("n." * 5000), {}, b"\x02\x02", None),
        ("message M {" * 3000, {}, b"\0", None),
        (MESSAGE.format("", "M inner = 2;"), {}, b"\0", 5),
        (MESSAGE.format("", "L0 wide = 2;") + CHAIN, {}, b"\0", 5),
        (MESSAGE.format('import "a"; import "a/b";', "A one = 2; B two = 3;"), {"a": "A", "a/b": "B"}, b"\0", 5),
        (MESSAGE.format("", ""), {"a" * 300: "A"}, b"\0", None),
        (MESSAGE.format("", ""), {"a\0b": "A"}, b"\0", None),
        (MESSAGE.format("", ""), {"../../a": "A"}, b"\0", None),
        ('syntax = "proto3"; enum E { A = 0; }', {}, b"\0", None),
    ],
    ids=["option", "deep", "deeper", "messages", "itself", "wide", "names", "long", "zero", "outside", "none"],
)
def test_a_protobuf_schema_ends_no_process(known, schema, references, index, seen):
    sources = {name: f'syntax = "proto3"; message {message} {{}}' for name, message in references.items()}
    config, value = known(schema, "PROTOBUF", sources), header(7) + index + b"\x08\x05"
    assert times("protobuf:/t", config, [value], "ms")[0] == [seen]
    assert decoded(config, "protobuf", [value], ("M",), t=pa.int64()) == [seen and {"t": seen}]


def test_packages_that_are_missing_make_no_bad_values(known, monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    config = known(MESSAGE.format("", ""), "PROTOBUF")
    for _ in range(2):  # a task that is repeated in the same worker
        with pytest.raises(InstallationError, match=r"packages that are missing: pip install 'tidegate\[registry\]'$"):
            times("protobuf:/t", config, [header(7) + b"\0"], "ms")


def test_times_and_texts_beyond_all_types_are_bad_values(known):
    schema = 'syntax = "proto2"; import "google/protobuf/timestamp.proto"; message M { optional string s = 1; '
    config = known(schema + "optional google.protobuf.Timestamp t = 2; }", "PROTOBUF")
    late, no_utf8 = b"\x12\x0a\x08" + b"\xff" * 8 + b"\x7f", b"\x0a\x01\xff"
    values = [header(7) + b"\0" + data for data in (late, no_utf8, b"\x0a\x01a")]
    assert times("protobuf:/t", config, values, "ms")[0] == [None] * 3
    assert times("protobuf:/s", config, values, "iso8601")[0] == [None] * 3
    assert decoded(config, "protobuf", values, ("M",), s=pa.string()) == [{"s": None}, None, {"s": "a"}]
    assert decoded(config, "protobuf", values, ("M",), t=pa.timestamp("us", "UTC")) == [None, {"t": None}, {"t": None}]


def test_decoders_of_one_schema_are_kept_up_to_a_size(known, monkeypatch):
    """A short schema may have many messages of many types each, and each value names its message."""
    monkeypatch.setattr(schemas, "_MOST_MEMORY", 1 << 20)
    levels = [f"message B{n} {{ B{n - 1} x = 1; B{n - 1} y = 2; int64 at = 3; }}" for n in range(1, 10)]
    messages = [f"message M{n} {{ B9 b = 1; }}" for n in range(10)]
    text = "\n".join(['syntax = "proto3";', *messages, "message B0 { int64 at = 1; }", *levels])
    config = known(text, "PROTOBUF")
    values = [header(7) + b"\x02" + bytes([2 * n]) + b"\x0a\x07\x18\xfb\xd0\x95\xff\xbc1" for n in range(10)]
    before = decoders()
    assert times("protobuf:/b/at", config, values, "ms")[0] == [AT] * 10
    assert 0 < decoders() - before <= 3


def test_nothing_is_kept_for_messages_that_a_schema_does_not_have(known):
    config = known(MESSAGE.format("", ""), "PROTOBUF")
    values = [header(7) + b"\x04\0" + bytes([2 * n]) + b"\x08\x05" for n in range(60)]
    assert times("protobuf:/t", config, [*values, header(7) + b"\0\x08\x05"], "ms")[0] == [None] * 60 + [5]
    assert len(registry_of(config)._schemas[7]._decoders) == 2  # its messages, and what decodes the only one


@pytest.mark.parametrize("name", ["t", "T"])
def test_values_of_a_schema_without_the_field_are_not_decoded(known, monkeypatch, name):
    seen = []
    monkeypatch.setattr(AvroValues, "decode", lambda _, values: seen.append(values))
    schema = {"type": "record", "name": "R", "fields": [{"name": "other" if name == "t" else "t", "type": "long"}]}
    assert times(f"avro:/{name}", known(schema), [header(7) + VARINT_OF_AT], "ms")[0] == [None]
    assert not seen


def decoders():
    return len([value for value in gc.get_objects() if isinstance(value, ProtobufValues)])
