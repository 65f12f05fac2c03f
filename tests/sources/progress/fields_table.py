"""The list of the fields of a source's progress: names and units from the code, meanings from its docstring.

``python -m tests.sources.progress.fields_table`` writes it into ``docs/reference/progress.md``.
"""

from datetime import datetime, timedelta
from pathlib import Path

from tests.sources.options_table import entries, in_options, meanings, parts, write
from tidegate import SourceProgress

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "progress.md"
SUBJECT = "progress"


def fields_table():
    fields = {name: field for name, field in SourceProgress.model_fields.items() if not field.exclude}
    names, said = {name: field.alias for name, field in fields.items()}, meanings(SourceProgress)
    return entries(
        (f"`{field.alias}`", _unit(field.annotation), _in_json(said[name], names)) for name, field in fields.items()
    )


def _in_json(text, names):
    return in_options(text, names).replace("None:", "`null`:")


def _unit(annotation):
    inner = parts(annotation)
    return "ms since 1970" if datetime in inner else "ms" if timedelta in inner else ""


if __name__ == "__main__":
    write(PAGE, fields_table(), SUBJECT)
