"""Objects of another format than ``fileFormat``: the error names their own format."""

import pyarrow as pa
import pytest

from tests.readers.formats.contract import CASES, ROWS, rows_of
from tests.support.objects.lab import InMemory
from tidegate.errors import CorruptDataError
from tidegate.readers.formats.registry import FORMATS, INFERRED, FormatOptions
from tidegate.readers.formats.signatures import other_format
from tidegate.readers.objects.values import Chunk

NAMED = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}


@pytest.mark.parametrize("written", NAMED)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro", "json", "csv", "text"])
def test_an_object_of_another_format_is_named_whatever_is_done_with_bad_records(file_format, written):
    if file_format == written:
        return
    content = CASES[written].write(rows_of(60), 20)
    store, factory = InMemory(content), FORMATS[file_format]
    obj = store.listed()
    drops = {"mode": "DROPMALFORMED"} if "mode" in factory.options.model_fields else {}
    made = factory.create(FormatOptions(**drops), store, INFERRED)
    columns = pa.schema([("value", pa.string())]) if file_format == "text" else ROWS
    looks = [lambda: made.survey(obj, "at"), lambda: [*made.read(Chunk(*obj, 0, obj.size, 1, None, None), columns)]]
    if file_format == "text":  # it has the same column always, and no times
        del looks[0]
    else:
        looks.append(lambda: made.infer([obj]))
    for look in looks:
        with pytest.raises(
            CorruptDataError, match=f"; it begins as {NAMED[written]} does: set fileFormat to {written}"
        ):
            look()


@pytest.mark.parametrize("text", [b"PAR1,PAR2\n1,2\n", b"ORC\n", b"ORC1\tORC2\r\n", b"", b"Obj"])
def test_lines_may_begin_with_the_letters_of_a_signature(text):
    assert not other_format(text)
