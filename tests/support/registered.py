"""Values in Confluent's wire format, written by fastavro and by Google's Protobuf; and their event times."""

import io
import json
import struct
from contextlib import contextmanager
from urllib.parse import unquote

import fastavro
import pyarrow as pa

from tests.support.servers.stub import stub
from tidegate.readers.event_time.assigners import assigner_of
from tidegate.readers.registry.client import RegistryConfig
from tidegate.readers.registry.columns import column_of_subject

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
    if unit is None and (detected := assigner.detect(batch)) is not None:
        assigner = assigner.with_unit(detected)
    return assigner(batch).to_pylist(), assigner.unit


def decoded_as(subject, config, form, values, *how, headers=None):
    """Return values in the type of a subject as rows."""
    column = column_of_subject(config, form, subject, *how)
    given = [pa.array(values, pa.binary())]
    if headers is not None:
        pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
        given.append(pa.array(headers, pa.list_(pair)))
    return column.decoded(*given).to_pylist()


@contextmanager
def registry_of(schemas, subject="orders-value", newest=None, kind="AVRO", guids=None, in_context=None):
    """Serve schemas by id; yield the configuration of their registry.

    newest: the id of the newest schema of the subject; None: the last one.
    in_context: the schemas by id in the context of the subject; None: it is the default one.
    """

    def answer(handler):
        path, _, context = unquote(handler.path).partition("?subject=")
        known = in_context if in_context and (context or path.startswith("/subjects/")) else schemas
        if path == f"/subjects/{subject}/versions/latest":
            number = newest or [*known][-1]
        else:
            *_, of, last = path.split("/")
            number = int(last) if of == "ids" else (guids or {}).get(last)
        if number not in known:
            return 404, {"error_code": 40403}
        schema = known[number]
        return 200, {"schema": schema if isinstance(schema, str) else json.dumps(schema), "schemaType": kind}

    with stub(answer) as url:
        yield RegistryConfig(url)
