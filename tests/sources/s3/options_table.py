"""The list of the options that only the S3 source has, in the order of the alphabet.

``python -m tests.sources.s3.options_table`` writes it into ``docs/reference/options-s3.md``.
"""

from pathlib import Path

from tests.sources.options_table import entries, in_options, kind, meanings, shown, write
from tidegate import S3Source
from tidegate.readers.formats.registry import formats_with
from tidegate.sources.options import option_names
from tidegate.sources.source import Source

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "options-s3.md"


def made_table():
    return entries(sorted(_options(), key=lambda line: line[0].lower()))


def _options():
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


if __name__ == "__main__":
    write(PAGE, made_table())
