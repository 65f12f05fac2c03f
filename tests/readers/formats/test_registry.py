"""The declarations of formats, from which the source learns all that it knows about them."""

from pathlib import Path
from typing import get_args

import pytest

from tidegate.readers import formats
from tidegate.readers.formats.registry import FORMATS, FormatName, FormatOptions, formats_with


def test_every_folder_of_a_format_is_in_the_registry():
    folders = {path.parent.name for path in Path(formats.__file__).parent.glob("*/format.py")}
    assert {name.removesuffix("File") for name in FORMATS} == folders
    assert tuple(FORMATS) == get_args(FormatName)


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_format_says_of_options_is_said_of_its_own_which_are_among_those_of_all(name):
    options = FORMATS[name].options.model_fields
    for option, field in options.items():
        assert repr(FormatOptions.model_fields[option]) == repr(field)
        assert name in formats_with(option)
    assert {*FORMATS[name].split_options, *FORMATS[name].aliases.values()} <= {*options}
