"""All that tidegate uses of kafka-python's insides, which may move in any release.

kafka-python documents its clients, ``kafka.admin``, ``kafka.errors`` and ``kafka.structs``.  All else is imported here
only, and ``tests/test_private_names.py`` checks it.  ``pyproject.toml`` admits only releases that were tried.
"""

from __future__ import annotations

from typing import Any

from kafka.cluster import get_ip_port_afi
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, CoordinatorType, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatch
from kafka.record.util import decode_varint


def connections_of(admin: Any) -> Any:
    """Return the connection manager of a KafkaAdminClient, which sends any request to any node."""
    return admin._manager  # noqa: SLF001 - no client of kafka-python sends batches as they are


def records_of(builder: Any) -> bytes:
    """Return the records of a DefaultRecordBatchBuilder after an empty header: its checksum takes long in Python."""
    return bytes(builder._buffer)  # noqa: SLF001
