"""The declarations of formats, from which the source learns all that it knows about them."""

from typing import get_args

import pytest

from tidegate.readers.formats.registry import FORMATS, FormatName, FormatOptions, formats_with


def test_the_names_of_formats_are_those_of_the_registry():
    assert tuple(FORMATS) == get_args(FormatName)


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_format_says_of_options_is_said_of_its_own_which_are_among_those_of_all(name):
    options = FORMATS[name].options.model_fields
    for option, field in options.items():
        assert repr(FormatOptions.model_fields[option]) == repr(field)
        assert name in formats_with(option)
    assert {*FORMATS[name].split_options, *FORMATS[name].aliases.values()} <= {*options}
