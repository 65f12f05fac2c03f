"""The lists of options of the Kafka source: names, types and defaults from the code, meanings from its docstrings.

``python -m tests.sources.kafka.options_table`` writes them into ``docs/``.
"""

from pathlib import Path

from tests.sources.options_table import entries, in_options, kind, meanings, shown, strategy_options, with_unit, write
from tidegate import KafkaSource
from tidegate.sources.contract import SourceContract
from tidegate.sources.kafka.java.table import PROPERTIES
from tidegate.sources.kafka.typed import TypedTopicOptions
from tidegate.sources.options import option_names
from tidegate.sources.registry_options import RegistryOptions

PAGES = Path(__file__).parents[3] / "docs"
OTHER_PAGES = {"properties": PAGES / "reference" / "kafka-properties.md"}
"""Of lists that are not in ``docs/options.md``."""
OF_SPARK = {
    *("assign", "subscribe", "subscribePattern", "kafka.bootstrap.servers", "startingTimestamp", "startingOffsets"),
    *("startingOffsetsByTimestamp", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "failOnDataLoss"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition"),
    *("includeHeaders", "startingOffsetsByTimestampStrategy"),
}
"""The options of Spark's guide to its Kafka source."""

OURS = {"max.decompressed.bytes", "receive.message.max.bytes", "sasl.plain.username", "sasl.plain.password"}
"""The properties that Kafka's Java client does not have."""


SUBJECTS = {
    "what to read": (
        *("kafka.bootstrap.servers", "kafkaProperties", "subscribe", "subscribePattern", "assign", "startingOffsets"),
        *("startingOffsetsByTimestamp", "startingTimestamp", "startingOffsetsByTimestampStrategy", "startingGroupId"),
        *("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp", "archive", "archive.columns"),
        *("includeHeaders", "commitGroupId", "failOnDataLoss"),
    ),
    "event time": (
        *("eventTime", "eventTimeUnit", "badEventTime", "maxFutureSkew", "futureEventTime", "badRecordsPath"),
        *("maxOutOfOrderness", "watermarkFrom", "idleTimeout", "includeEventTime"),
        "sourceWatermark",
    ),
    "typed topics": (
        *("valueFormat", "valueSchema", "keyFormat", "keySchema", "mode", "rescuedDataColumn", "columns", "where"),
    ),
    "schema registry": (
        *("schema.registry.url", "schema.registry.basic.auth.user.info", "schema.registry.bearer.auth.token"),
        *("schema.registry.ssl.ca.location", "schema.registry.ssl.certificate.location"),
        "schema.registry.ssl.key.location",
    ),
    "alignment": (
        *("maxDrift", "alignment", "lateSplits", "alignmentGroup", "alignmentMembers"),
        *("alignmentLocation", "alignmentLease"),
    ),
    "batches": (
        *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "targetBatchDuration", "minOffsetsPerTrigger"),
        *("maxTriggerDelay", "maxRecordsPerPartition", "minPartitions", "discoveryInterval", "logLevel"),
    ),
    "properties": tuple(f"kafka.{name}" for name in PROPERTIES),
}
"""The options of each list; an option is in one of them."""


def page_of(subject):
    """Return the page with the list of a subject."""
    return OTHER_PAGES.get(subject, PAGES / "options.md")


def options_tables():
    """Return the list of each subject."""
    described = (*_of_source(), *strategy_options(), *_of_client())
    lines = {name.strip("`"): (name, *others) for name, *others in described}
    made = {subject: entries(lines.pop(option) for option in options) for subject, options in SUBJECTS.items()}
    assert not lines, f"in no list: {', '.join(lines)}"
    return made


def _of_source():
    classes = (SourceContract, KafkaSource, TypedTopicOptions, RegistryOptions)
    names, said = option_names(KafkaSource), {field: text for of in classes for field, text in meanings(of).items()}
    for field, option in names.items():
        if field in {"kafka", "watermarks"}:
            continue
        info = KafkaSource.model_fields[field]
        whose = "Spark" if option in OF_SPARK else ""
        default = "required" if info.is_required() else shown(info.default)
        yield f"`{option}`", kind(info.annotation, option), default, whose, in_options(said[field], names)


def _of_client():
    for name, listed in PROPERTIES.items():
        whose, default = "tidegate" if name in OURS else "", "" if listed.default == "none" else listed.default
        yield f"`kafka.{name}`", with_unit(listed.kind, listed.unit), default, whose, listed.meaning


if __name__ == "__main__":
    for subject, made in options_tables().items():
        write(page_of(subject), made, subject)
