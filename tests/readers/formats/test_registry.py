"""The declarations of formats, from which the source learns all that it knows about them."""

from __future__ import annotations

from typing import get_args

from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.formats.registry import FORMATS, FormatName, formats_with


def test_the_names_of_formats_are_those_of_the_registry():
    assert tuple(FORMATS) == get_args(FormatName)


def test_each_option_is_one_of_a_format():
    assert all(map(formats_with, FormatOptions.model_fields))
    for factory in FORMATS.values():
        assert {*factory.options} <= {*FormatOptions.model_fields}
        assert {*factory.split_options, *factory.aliases.values()} <= {*factory.options}
