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

DOCS = ROOT / "docs/reference"
LIST = re.compile("(?<=<!-- made by scripts/options-table -->\n\n).*?(?=\n<!-- end -->\n)", re.DOTALL)
_COLUMNS = {"event_time"}  # fields that are also names of columns


def entries(lines):
    """Return a list of Markdown, which fits a phone: of each name what is known in brackets, and its meaning.

    lines: each is a name, what is known of it, and its meaning.  Names of which all is said alike share an entry.
    """
    alike = {}
    for name, *known, meaning in lines:
        alike.setdefault((tuple(filter(None, known)), meaning), []).append(f"`{name}`")
    in_brackets = {known: f" ({'; '.join(known)})" if known else "" for known, _ in alike}
    return "".join(f"- {', '.join(names)}{in_brackets[known]}: {said}\n" for (known, said), names in alike.items())


def named(made):
    """Return the names in the entries of a list."""
    of_entries = re.findall(r"^- ((?:`[^`]+`(?:, )?)+)", made, re.MULTILINE)
    return [name for entry in of_entries for name in re.findall(r"`([^`]+)`", entry)]


def remade(page):
    """Return the text of a page with its lists made anew; where it has several, each keeps its own options."""
    text, lines = (DOCS / page).read_text(), {line[0]: line for line in LINES[page]()}
    shares = [named(found) for found in LIST.findall(text)]
    shares = [[*lines]] if len(shares) == 1 else shares
    made = [entries(lines.pop(name) for name in share) for share in shares]
    assert not lines, f"in no list of {page}: {', '.join(lines)}"
    return LIST.sub(lambda _: made.pop(0), text)


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


def _of_strategies():
    said, defaults = meanings(WatermarkStrategy), WatermarkStrategy()
    names = option_names(StrategyOptions)
    for field, option in names.items():
        of_kind = kind(StrategyOptions.model_fields[field].annotation, option)
        yield option, of_kind, shown(getattr(defaults, field)), in_options(said[field], names)


OF_SPARK = {
    *("assign", "subscribe", "subscribePattern", "kafka.bootstrap.servers", "startingTimestamp", "startingOffsets"),
    *("startingOffsetsByTimestamp", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "failOnDataLoss"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition"),
    *("includeHeaders", "startingOffsetsByTimestampStrategy"),
}
"""The options of Spark's guide to its Kafka source."""

OURS = {"max.decompressed.bytes", "receive.message.max.bytes", "sasl.plain.username", "sasl.plain.password"}
"""The properties that Kafka's Java client does not have."""


def _of_kafka():
    yield from _of_strategies()
    classes = (SourceContract, KafkaSource, TypedTopicOptions, RegistryOptions)
    names, said = option_names(KafkaSource), {field: text for of in classes for field, text in meanings(of).items()}
    for field, option in names.items():
        if field in {"kafka", "watermarks"}:
            continue
        info = KafkaSource.model_fields[field]
        whose = "Spark" if option in OF_SPARK else ""
        default = "required" if info.is_required() else shown(info.default)
        yield option, kind(info.annotation, option), default, whose, in_options(said[field], names)


def _of_client():
    for name, listed in PROPERTIES.items():
        whose, default = "tidegate" if name in OURS else "", "" if listed.default == "none" else listed.default
        yield f"kafka.{name}", with_unit(listed.kind, listed.unit), default, whose, listed.meaning


def _of_s3():
    return sorted(_of_fields_of_s3(), key=lambda line: line[0].lower())


def _of_fields_of_s3():
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
        yield option, of_kind, default, formats, meaning


def _of_progress():
    fields = {name: field for name, field in SourceProgress.model_fields.items() if not field.exclude}
    names, said = {name: field.alias for name, field in fields.items()}, meanings(SourceProgress)
    for name, field in fields.items():
        inner = parts(field.annotation)
        unit = "ms since 1970" if datetime in inner else "ms" if timedelta in inner else ""
        yield field.alias, unit, in_options(said[name], names).replace("None:", "`null`:")


LINES = {
    "options-kafka.md": _of_kafka,
    "kafka-properties.md": _of_client,
    "options-s3.md": _of_s3,
    "progress.md": _of_progress,
}
"""What makes the lines of each page: names, what is known of them, and meanings."""


if __name__ == "__main__":
    for name in LINES:
        (DOCS / name).write_text(remade(name))
