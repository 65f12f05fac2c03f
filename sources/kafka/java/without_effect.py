"""Properties of Kafka's Java clients that change nothing here, with the reasons, and those that are refused."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["INSTEAD", "NO_GROUP", "why_without_effect"]

NO_GROUP = "positions are in Spark's checkpoint, and no consumer group reads; commitGroupId commits them to one"

# Of Kafka 4.1; a test compares them with those of its consumer, producer and admin client.
_REASONS: dict[str, tuple[str, ...]] = {
    NO_GROUP: (
        "auto.commit.interval.ms",
        "enable.auto.commit",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "internal.leave.group.on.close",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "share.acknowledgement.mode",
    ),
    "a batch reads ranges that are planned": (
        "allow.auto.create.topics",
        "exclude.internal.topics",
        "fetch.min.bytes",
        "internal.throw.on.fetch.stable.offset.unsupported",
        "max.poll.records",
    ),
    "keys and values are binary; cast them in Spark": ("key.deserializer", "value.deserializer"),
    "only Java clients use it": (
        "auto.include.jmx.reporter",
        "enable.metrics.push",
        "interceptor.classes",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "security.providers",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    ),
    "connections stay open while they are used": (
        "bootstrap.controllers",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
    ),
    "Kerberos renews its tickets itself": (
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
    ),
    "a token is renewed after four fifths of its life": (
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
    ),
    "a login is tried again with its connection": (
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
    ),
    "only brokers use it, to check tokens": (
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
    ),
    "only producers use it": (
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delivery.timeout.ms",
        "enable.idempotence",
        "key.serializer",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.class",
        "partitioner.ignore.keys",
        "retries",
        "transaction.timeout.ms",
        "transaction.two.phase.commit.enable",
        "transactional.id",
        "value.serializer",
    ),
}
_REASON_OF = {name: reason for reason, names in _REASONS.items() for name in names}
_REASONS_OF_PREFIXES = {
    "basic.auth.": "only clients of a schema registry use it",
    "schema.registry.": "only clients of a schema registry use it",
    "confluent.": "only Confluent's clients use it",
}

_ASSERTION = "tokens come for client credentials, or from a function that sasl.login.callback.handler.class names"
_NO_VARIABLES = "write the values themselves"

INSTEAD: dict[str, str] = {
    "auto.offset.reset": "set startingOffsets",
    "config.providers": _NO_VARIABLES,
    "sasl.login.class": "set kafka.sasl.login.callback.handler.class to a Python function, as package:function",
    "ssl.engine.factory.class": "set kafka.ssl.truststore.location and kafka.ssl.keystore.location",
    "sasl.oauthbearer.assertion.": _ASSERTION,
    "sasl.oauthbearer.jwt.retriever.class": _ASSERTION,
}
"""Properties that must not be ignored, with their replacements; a final dot means all with that prefix."""


def why_without_effect(name: str) -> str | None:
    """Return the reason why a property has no effect; None: it has an effect, or is unknown."""
    prefixes: Iterable[str] = (prefix for prefix in _REASONS_OF_PREFIXES if name.startswith(prefix))
    return _REASON_OF.get(name) or next((_REASONS_OF_PREFIXES[prefix] for prefix in prefixes), None)
