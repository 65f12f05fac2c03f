"""The table of all options of the Kafka source: names, types and defaults from the code, meanings from its docstrings.

``python -m tests.sources.kafka.options_table`` writes it into ``docs/options.md``.
"""

import inspect
import re
from datetime import timedelta
from pathlib import Path
from typing import Literal, get_args, get_origin

from tidegate import KafkaSource, WatermarkStrategy
from tidegate.sources.contract import _WATERMARK_OPTIONS, Source
from tidegate.sources.kafka.property_table import PROPERTIES
from tidegate.sources.options import option_names

PAGE = Path(__file__).parents[3] / "docs" / "options.md"
BEGIN, END = "<!-- made by scripts/options-table -->\n", "<!-- end -->\n"
COLUMNS = {"event_time"}
HEAD = ("option", "type", "unit", "default", "meaning", "of")
STRATEGY_KINDS = {
    "alignmentGroup": "text",
    "alignmentPriority": "number",
    "alignmentMembers": "number",
    "alignmentLocation": "text",
}
OF_SPARK = {
    *("assign", "subscribe", "subscribePattern", "kafka.bootstrap.servers", "startingTimestamp", "startingOffsets"),
    *("startingOffsetsByTimestamp", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "failOnDataLoss"),
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "maxOffsetsPerTrigger"),
    *("minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition", "groupIdPrefix"),
    *("includeHeaders", "startingOffsetsByTimestampStrategy"),
}
"""The options of Spark's guide to its Kafka source."""

OURS = {
    *("max.decompressed.bytes", "receive.message.max.bytes", "proxy.url", "sasl.plain.username", "sasl.plain.password"),
    *("sasl.kerberos.name", "sasl.kerberos.domain.name", "ssl.cafile", "ssl.certfile", "ssl.keyfile", "ssl.password"),
    *("ssl.crlfile", "ssl.check.hostname"),
}
"""The properties that Kafka's Java client does not have."""


def options_table():
    lines = [HEAD, ("---",) * len(HEAD), *_of_source(), *_of_strategy(), *_of_client()]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _of_source():
    names, meanings = option_names(KafkaSource), _meanings(Source) | _meanings(KafkaSource)
    for field, option in names.items():
        if field in {"kafka", "watermarks"}:
            continue
        info = KafkaSource.model_fields[field]
        kind, unit = _kind(info.annotation, option)
        whose = "Spark" if option in OF_SPARK else "tidegate"
        default = "required" if info.is_required() else _shown(info.default)
        yield f"`{option}`", kind, unit, default, _in_options(meanings[field], names), whose


def _of_strategy():
    meanings, defaults = _meanings(WatermarkStrategy), WatermarkStrategy()
    names = {field: option for option, field in _WATERMARK_OPTIONS.items()}
    for option, field in _WATERMARK_OPTIONS.items():
        kind = STRATEGY_KINDS.get(option, "duration")
        unit = "given with it" if kind == "duration" else ""
        yield (
            f"`{option}`",
            kind,
            unit,
            _shown(getattr(defaults, field)),
            _in_options(meanings[field], names),
            "tidegate",
        )


def _of_client():
    for name, listed in PROPERTIES.items():
        whose = "tidegate" if name in OURS else "Kafka"
        yield f"`kafka.{name}`", listed.kind, listed.unit, listed.default, listed.meaning, whose


def _meanings(described):
    """Return the entry of each field in the docstring of a class, as one line."""
    entries = re.split(r"\n(?=[a-z_]+(?:, [a-z_]+)*: )", inspect.cleandoc(described.__doc__))
    meanings = {}
    for entry in entries[1:]:
        fields, _, text = entry.partition("\n\n")[0].partition(": ")
        meanings |= dict.fromkeys(fields.split(", "), " ".join(text.split()).rstrip("."))
    return meanings


def _in_options(text, names):
    """Name options in place of fields, but not in place of columns."""
    options = {field: option for field, option in names.items() if field not in COLUMNS}
    return re.sub(r"``([^`]+)``", lambda name: f"`{options.get(name[1], name[1])}`", text)


def _kind(annotation, option):
    parts = _parts(annotation)
    unit = "bytes" if "Bytes" in option else "ms" if option.endswith("Ms") else ""
    if timedelta in parts:
        return "duration", "given with it"
    if option.endswith("Timestamp"):
        return ("JSON" if dict in map(get_origin, parts) else "number"), "ms since 1970"
    if dict in map(get_origin, parts) or option == "assign":
        return "JSON", ""
    if bool in parts:
        return "boolean", ""
    if any(get_origin(part) is Literal for part in parts):
        return "one of a few", ""
    return ("number", unit) if int in parts else ("text", "")


def _parts(annotation):
    """Return a type and all types within it; constraints and limits are no types."""
    inner = [part for part in get_args(annotation) if get_origin(annotation) is not Literal]
    return [annotation, *(part for each in inner for part in _parts(each))]


def _shown(default):
    if default is None:
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, timedelta):
        units = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
        seconds = default.total_seconds()
        unit, size = next(
            ((name, size) for name, size in units if seconds >= size and not seconds % size), ("second", 1)
        )
        count = int(seconds / size)
        return f"`{count} {unit}{'' if count == 1 else 's'}`"
    return f"`{default}`"


def main():
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{options_table()}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
