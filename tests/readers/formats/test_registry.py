"""The declarations of formats, from which the source learns all that it knows about them."""

from pathlib import Path
from typing import get_args

import pytest

from tidegate.readers import formats
from tidegate.readers.formats.registry import FACTORIES, FormatName, FormatOptions, formats_with

each_format = pytest.mark.parametrize("factory", FACTORIES.values(), ids=FACTORIES)


def test_every_folder_of_a_format_has_a_factory_in_the_registry():
    folders = {path.parent.name for path in Path(formats.__file__).parent.glob("*/format.py")} - {"guarded"}
    assert {type(factory).__module__.split(".")[-2] for factory in FACTORIES.values()} == folders
    assert tuple(FACTORIES) == get_args(FormatName)


@each_format
def test_the_options_of_a_format_are_among_those_of_all(factory):
    assert issubclass(FormatOptions, factory.options)
    for name, field in factory.options.model_fields.items():
        assert repr(FormatOptions.model_fields[name]) == repr(field)
        assert factory.name in formats_with(name)


@each_format
def test_what_a_format_says_of_options_is_said_of_its_own(factory):
    assert {*factory.split_options, *factory.aliases.values()} <= {*factory.options.model_fields}


def test_each_option_belongs_to_a_format():
    assert all(map(formats_with, FormatOptions.model_fields))
    assert formats_with("encoding") == ["csv", "text"]
    assert formats_with("path") == []


@pytest.mark.parametrize(
    ("name", "options", "columns_by"),
    [
        ("parquet", {}, "name"),
        ("json", {}, "name"),
        ("csv", {}, "position"),
        ("csv", {"header": True}, "name"),
        ("csv", {"header": True, "enforce_schema": True}, "position"),
        ("text", {}, "format"),
        ("binaryFile", {}, "format"),
    ],
)
def test_columns_are_found_by_what_objects_say(name, options, columns_by):
    assert FACTORIES[name].columns_by(FormatOptions(**options)) == columns_by
