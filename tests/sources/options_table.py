"""Shared by the lists of all options: names, types and defaults from the code, meanings from its docstrings."""

import inspect
import re
from datetime import timedelta
from typing import Literal, get_args, get_origin

from tidegate import WatermarkStrategy
from tidegate.sources.contract import StrategyOptions
from tidegate.sources.options import option_names

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
    before, begin, rest = page.read_text().partition(_begin(subject))
    assert begin, f"{page.name} has no place for a list of {subject}"
    page.write_text(f"{before}{placed(made, subject)}{rest.partition(END)[2]}")


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
