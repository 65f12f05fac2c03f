"""Values in Confluent's wire format, written by fastavro and by Google's Protobuf; and their event times."""

import io
import struct

import fastavro
import pyarrow as pa

from tidegate.readers.event_time.assigners import assigner_of
from tidegate.readers.registry.columns import RegistryColumn, column_of_subject

AT = 1_700_000_000_123


def avro(*fields):
    return {"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def header(schema_id):
    return b"\0" + struct.pack(">I", schema_id)


def avro_value(schema_id, schema, record):
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(schema), record)
    return header(schema_id) + payload.getvalue()


def protobuf_value(schema_id, message, indexes=b"\0"):
    return header(schema_id) + indexes + message.SerializeToString()


def times(option, config, values, unit=None):
    assigner = assigner_of(option, unit, config)
    batch = pa.record_batch({"value": pa.array(values, pa.binary())})
    if unit is None:
        assigner = assigner.with_unit(assigner.detect(batch))
    return assigner(batch).to_pylist(), assigner.unit


def decoded(config, form, values, names=(), **fields):
    """Return values in columns of these types as rows; null: such a value cannot be decoded."""
    column = RegistryColumn(config, form, pa.struct([*fields.items()]), "PERMISSIVE", names)
    return column.decoded(pa.array(values, pa.binary())).to_pylist()


def decoded_as(subject, config, form, values, *how):
    """Return values in the type of a subject as rows."""
    return column_of_subject(config, form, subject, *how).decoded(pa.array(values, pa.binary())).to_pylist()
