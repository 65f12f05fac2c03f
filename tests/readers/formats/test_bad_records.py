"""The columns of the policy for bad records; ``json/test_bad_records.py`` shows its decisions."""

import pyarrow as pa
import pytest

from tidegate.errors import OptionError
from tidegate.readers.formats.bad_records import BadRecordPolicy

SCHEMA = pa.schema([("_corrupt_record", pa.string()), ("i", pa.int64()), ("rest", pa.string())])


def test_its_own_columns_have_to_be_strings_and_others_are_the_datas():
    assert BadRecordPolicy(rescued_column="rest").data_schema(SCHEMA).names == ["i"]
    with pytest.raises(OptionError, match="the column 'i' is of the type int64; it has to be a string"):
        BadRecordPolicy("PERMISSIVE", "i").data_schema(SCHEMA)
