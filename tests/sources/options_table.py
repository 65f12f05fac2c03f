"""The lists of options, and of the fields of progress: names and types from the code, meanings from its docstrings.

``python -m tests.sources.options_table`` writes them into ``docs/``.
"""

import inspect
import re
from datetime import datetime, timedelta
from typing import Literal, get_args, get_origin

from tests.support.pages import ROOT
from tidegate import KafkaSource, S3Source, SourceProgress, WatermarkStrategy
from tidegate.readers.formats.registry import formats_with
from tidegate.sources.contract import SourceContract, StrategyOptions
from tidegate.sources.kafka.java.table import PROPERTIES
from tidegate.sources.kafka.typed import TypedTopicOptions
from tidegate.sources.options import option_names
from tidegate.sources.registry_options import RegistryOptions
from tidegate.sources.source import Source

DOCS = ROOT / "docs"
END = "<!-- end -->\n"
_COLUMNS = {"event_time"}  # fields that are also names of columns


def entries(lines):
    """Return a list of Markdown, which fits a phone: of each name what is known in brackets, and its meaning.

    lines: each is a name, what is known of it, and its meaning.  Names of which all is said alike share an entry.
    """
    alike = {}
    for name, *known, meaning in lines:
        alike.setdefault((tuple(filter(None, known)), meaning), []).append(name)
    in_brackets = {known: f" ({'; '.join(known)})" if known else "" for known, _ in alike}
    return "".join(f"- {', '.join(names)}{in_brackets[known]}: {said}\n" for (known, said), names in alike.items())


def placed(made, subject=None):
    """Return a list with the comments around it, which name its subject if a page has several."""
    return f"{_begin(subject)}\n{made}\n{END}"


def write(page, made, subject=None):
    """Put a list in its place on a page."""
    before, begin, remainder = page.read_text().partition(_begin(subject))
    assert begin, f"{page.name} has no place for a list of {subject}"
    page.write_text(f"{before}{placed(made, subject)}{remainder.partition(END)[2]}")


def _begin(subject):
    return f"<!-- made by scripts/options-table{'' if subject is None else f': {subject}'} -->\n"


def meanings(described):
    """Return the entry of each field in the docstring of a class, as one line."""
    entries = re.split(r"\n(?=[a-z_]+(?:, [a-z_]+)*: )", inspect.cleandoc(described.__doc__))
    texts = {}
    for entry in entries[1:]:
        fields, _, text = entry.partition("\n\n")[0].partition(": ")
        texts |= dict.fromkeys(fields.split(", "), " ".join(text.split()).rstrip("."))
    return texts


def in_options(text, names):
    """Name options in place of fields, but not in place of columns."""
    options = {field: option for field, option in names.items() if field not in _COLUMNS}
    return re.sub(r"``([^`]+)``", lambda name: f"`{options.get(name[1], name[1])}`", text)


def kind(annotation, option):
    """Return the type of an option and its unit, for people."""
    inner, is_time = parts(annotation), option.endswith("Timestamp")
    kinds = {
        "duration": timedelta in inner,
        "JSON": dict in map(get_origin, inner) or option == "assign",
        "number": is_time,
        "boolean": bool in inner,
        "choice": any(get_origin(part) is Literal for part in inner),
        "text": int not in inner,
    }
    of_kind = next((name for name, holds in kinds.items() if holds), "number")
    unit = "ms since 1970" if is_time else "bytes" if "Bytes" in option else "ms" if option.endswith("Ms") else ""
    return with_unit(of_kind, unit if of_kind in {"number", "JSON"} else "")


def with_unit(of_kind, unit):
    return f"{of_kind}, {unit}" if unit else of_kind


def parts(annotation):
    """Return a type and all types within it; constraints and limits are no types."""
    inner = [part for part in get_args(annotation) if get_origin(annotation) is not Literal]
    return [annotation, *(part for argument in inner for part in parts(argument))]


def shown(default):
    """Return a default as it is written; empty: there is none."""
    if default in {None, ""}:
        return "" if default is None else "empty"
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


def strategy_options():
    """Yield each option of watermark strategies, as (option, type, default, meaning)."""
    said, defaults = meanings(WatermarkStrategy), WatermarkStrategy()
    names = option_names(StrategyOptions)
    for field, option in names.items():
        of_kind = kind(StrategyOptions.model_fields[field].annotation, option)
        yield f"`{option}`", of_kind, shown(getattr(defaults, field)), in_options(said[field], names)


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


def kafka_tables():
    """Return the list of each subject."""
    described = (*_of_kafka(), *strategy_options(), *_of_client())
    lines = {name.strip("`"): (name, *others) for name, *others in described}
    made = {subject: entries(lines.pop(option) for option in options) for subject, options in SUBJECTS.items()}
    assert not lines, f"in no list: {', '.join(lines)}"
    return made


def _of_kafka():
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


def s3_table():
    return entries(sorted(_of_s3(), key=lambda line: line[0].lower()))


def _of_s3():
    names, said = option_names(S3Source), {}
    for described in reversed(S3Source.__mro__):
        said |= meanings(described) if described.__doc__ else {}
    for field, option in names.items():
        if field in Source.model_fields:
            continue
        info = S3Source.model_fields[field]
        of_kind = kind(info.annotation, option)
        default = "required" if info.is_required() else shown(info.default)
        meaning, formats = in_options(said[field], names), ", ".join(formats_with(field))
        yield f"`{option}`", of_kind, default, formats, meaning


def progress_table():
    fields = {name: field for name, field in SourceProgress.model_fields.items() if not field.exclude}
    names, said = {name: field.alias for name, field in fields.items()}, meanings(SourceProgress)
    return entries(
        (f"`{field.alias}`", _unit_of(field.annotation), _in_json(said[name], names)) for name, field in fields.items()
    )


def _in_json(text, names):
    return in_options(text, names).replace("None:", "`null`:")


def _unit_of(annotation):
    inner = parts(annotation)
    return "ms since 1970" if datetime in inner else "ms" if timedelta in inner else ""


def lists():
    """Return each list as (page, text, subject); None: the page has no other list."""
    for subject, made in kafka_tables().items():
        page = "kafka-properties" if subject == "properties" else "options-kafka"
        yield DOCS / f"reference/{page}.md", made, subject
    yield DOCS / "reference/options-s3.md", s3_table(), None
    yield DOCS / "reference/progress.md", progress_table(), "progress"


if __name__ == "__main__":
    for place in lists():
        write(*place)
