"""Values of random schemas, read as random successors of these, compared with Avro's own library for Java."""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random

import fastavro
import pyspark
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.java_gateway import JavaGateway

from tidegate.errors import CorruptDataError
from tidegate.readers.avro.records import AvroValues
from tidegate.readers.avro.resolution import AvroSchema

REFUSED = "refused"
PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]


@pytest.fixture(scope="module")
def jvm():
    """Yield a JVM with the library, which is among Spark's jars."""
    jars = Path(pyspark.__file__).parent / "jars"
    (own,) = jars.glob("py4j-*.jar")
    gateway = JavaGateway.launch_gateway(
        jarpath=str(own), classpath=f"{jars}/*", javaopts=["-XX:TieredStopAtLevel=1"], die_on_exit=True
    )
    yield gateway.jvm
    gateway.shutdown()


class Schemas:
    """Makes schemas, successors of them, and values; every named type has a name of its own."""

    def __init__(self, random: Random) -> None:
        self._random, self._named = random, 0

    def record(self, depth: int) -> dict:
        name = self._name()
        # No other record has this field, because Java also takes records of other names whose fields fit.
        fields = [{"name": f"id_{name}", "type": "int"}]
        fields += [{"name": f"f{number}", "type": self.any(depth)} for number in range(self._random.randrange(4))]
        return {"type": "record", "name": name, "fields": fields}

    def any(self, depth: int) -> object:
        kind = self._random.choice(["primitive"] * 4 + ["union", "array", "map", "record", "enum", "fixed"])
        if kind == "primitive" or depth <= 0:
            return self._random.choice(PRIMITIVES)
        if kind == "union":
            return self._union([self.any(depth - 1) for _ in range(self._random.randrange(1, 4))])
        if kind == "record":
            return self.record(depth - 1)
        if kind == "enum":
            return {"type": "enum", "name": self._name(), "symbols": self._random.sample("abcd", 3)}
        if kind == "fixed":
            return {"type": "fixed", "name": self._name(), "size": 2}
        return {"type": kind, "items" if kind == "array" else "values": self.any(depth - 1)}

    def successor(self, schema: object) -> object:  # noqa: PLR0911 - one for each kind
        """Return a schema that somebody might register after another one, compatible or not."""
        chance = self._random.random()
        if chance < 0.05:
            return self.any(1)
        if chance < 0.15:
            return self._union([schema, self.any(1)])
        if isinstance(schema, list):
            branches = [self.successor(branch) for branch in schema if self._random.random() < 0.9]
            return self._union(self._random.sample(branches, len(branches))) if branches else "int"
        if isinstance(schema, str):
            several = self._union(self._random.sample(PRIMITIVES, 4))
            return self._random.choice([schema, schema, self._random.choice(PRIMITIVES), several])
        if schema["type"] == "record":
            fields = [self._next_field(field) for field in schema["fields"] if self._random.random() < 0.9]
            fields += [{"name": "added", "type": "int", "default": 7}] * self._random.randrange(2)
            renamed = {"name": self._name(), "aliases": [schema["name"]]} if chance > 0.8 else {}
            return {**schema, **renamed, "fields": self._random.sample(fields, len(fields))}
        if schema["type"] == "enum":
            symbols = self._random.sample("abcd", 3)
            return {**schema, "symbols": symbols, **({"default": symbols[0]} if chance > 0.6 else {})}
        inner = {"array": "items", "map": "values"}.get(schema["type"])
        return {**schema, inner: self.successor(schema[inner])} if inner else schema

    def value(self, schema: object) -> object:
        if isinstance(schema, list):
            branch = self._random.choice(schema)
            value = self.value(branch)
            return (branch["name"], value) if isinstance(branch, dict) and "name" in branch else value
        if isinstance(schema, dict) and schema["type"] == "record":
            return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
        if isinstance(schema, dict) and schema["type"] == "enum":
            return self._random.choice(schema["symbols"])
        if isinstance(schema, dict) and schema["type"] == "array":
            return [
                self.value(schema["items"]) for _ in range(self._random.randrange(1, 3))
            ]  # Java overlooks types of no items
        if isinstance(schema, dict) and schema["type"] == "map":
            return {key: self.value(schema["values"]) for key in "kl"[: self._random.randrange(1, 3)]}
        number = self._random.randrange(-(2**20), 2**20)
        return {
            "null": None,
            "boolean": number > 0,
            "int": number,
            "long": number * 2**30,
            "float": number / 4,
            "double": number / 8,
            "bytes": b"b%d" % number,
            "string": f"s{number}",
        }.get(schema if isinstance(schema, str) else "", b"xy")

    def _next_field(self, field: dict) -> dict:
        chance = self._random.random()
        named = {"name": f"{field['name']}_new", "aliases": [field["name"]]} if chance < 0.2 else {}
        return {**field, **named, "type": self.successor(field["type"])}

    def _name(self) -> str:
        self._named += 1
        return f"N{self._named}"

    def _union(self, branches: list) -> object:
        flat = [part for branch in branches for part in (branch if isinstance(branch, list) else [branch])]
        kept = {part if isinstance(part, str) else part.get("name", part["type"]): part for part in flat}
        return [*kept.values()]


def in_java(jvm, writer: object, reader: object, payload: bytes) -> object:
    avro = jvm.org.apache.avro
    read_as = avro.Schema.Parser().parse(json.dumps(reader))
    try:
        reading = avro.generic.GenericDatumReader(avro.Schema.Parser().parse(json.dumps(writer)), read_as)
        datum = reading.read(None, avro.io.DecoderFactory.get().binaryDecoder(payload, None))
    except Exception:  # noqa: BLE001 - whatever Java raises
        return REFUSED
    out = jvm.java.io.ByteArrayOutputStream()
    encoder = avro.io.EncoderFactory.get().jsonEncoder(read_as, out)
    avro.generic.GenericDatumWriter(read_as).write(datum, encoder)
    encoder.flush()
    return json.loads(out.toString() or ("null" if reader == "null" else "{}"))  # it does not write these


def here(writer: object, reader: object, payload: bytes) -> object:
    try:
        values = AvroValues(AvroSchema(writer), AvroSchema(reader))
    except CorruptDataError as problem:
        return str(problem) if "is not a valid Avro schema" in str(problem) else REFUSED
    array, good = values.decode([payload])
    assert array.type == AvroSchema(reader).kind
    return as_json(array.to_pylist()[0], reader) if good[0] else REFUSED


def as_json(value: object, schema: object) -> object:  # noqa: PLR0911 - one for each kind
    """Return a value in Avro's encoding of JSON, in which unions name their branch."""
    if isinstance(schema, list):
        members = [branch for branch in schema if branch != "null"]
        if value is None:
            return None
        if len(members) == 1:
            return {tag(members[0]): as_json(value, members[0])}
        if set(map(str, members)) in ({"int", "long"}, {"float", "double"}):
            return value  # one column holds both
        ((number, inner),) = ((number, of) for number, of in enumerate(value.values()) if of is not None)
        return {tag(members[number]): as_json(inner, members[number])}
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return {field["name"]: as_json(value[field["name"]], field["type"]) for field in schema["fields"]}
    if kind == "array":
        return [as_json(item, schema["items"]) for item in value]
    if kind == "map":
        return {key: as_json(item, schema["values"]) for key, item in value}
    return value.decode("latin-1") if kind in {"bytes", "fixed"} else value


def tag(schema: object) -> str:
    return schema if isinstance(schema, str) else schema.get("name", schema["type"])


def without_tags_of_numbers(value: object) -> object:
    """Return JSON in which the branches of int and long, or of float and double, are not told apart."""
    if isinstance(value, list):
        return [*map(without_tags_of_numbers, value)]
    if not isinstance(value, dict):
        return value
    if value.keys() & {"int", "long", "float", "double"}:
        return next(iter(value.values()))
    return {key: without_tags_of_numbers(item) for key, item in value.items()}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_a_value_is_what_java_s_library_reads(jvm, seed):
    schemas = Schemas(Random(seed))
    writer = schemas.record(2)
    reader = schemas.successor(writer)
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(writer), schemas.value(writer))
    expected = in_java(jvm, writer, reader, payload.getvalue())
    found = here(writer, reader, payload.getvalue())
    assert without_tags_of_numbers(found) == without_tags_of_numbers(expected), (writer, reader, payload.getvalue())
