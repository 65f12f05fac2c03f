"""Values in Confluent's wire format, written by fastavro and by Google's Protobuf."""

import io
import struct

import fastavro


def header(schema_id):
    return b"\0" + struct.pack(">I", schema_id)


def avro_value(schema_id, schema, record):
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(schema), record)
    return header(schema_id) + payload.getvalue()


def protobuf_value(schema_id, message, indexes=b"\0"):
    return header(schema_id) + indexes + message.SerializeToString()
