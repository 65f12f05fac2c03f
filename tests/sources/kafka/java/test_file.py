import pytest

from tidegate import OptionError
from tidegate.sources.kafka.java.properties import read_properties

FILE = r"""
# what Kafka's own tools take
! and another comment
security.protocol=SASL_SSL
  sasl.mechanism : PLAIN
kafka.sasl.plain.username me
sasl.plain.password = =s\u00e9cret: with\\everything #!\
    and more
ssl.cafile=first.pem
ssl.cafile=C:\\certificates\\second.pem
client.id=\#a\=b
ssl.endpoint.identification.algorithm=
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "client.properties"


def test_a_file_is_read_as_java_reads_it(path):
    path.write_text(FILE, encoding="utf-8")
    assert read_properties("--kafka-properties", path) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.plain.username": "me",
        "sasl.plain.password": "=s\u00e9cret: with\\everything #!and more",
        "ssl.cafile": "C:\\certificates\\second.pem",
        "client.id": "#a=b",
        "ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize("line", ["hunter2", "=hunter2", "hunter2\\"])
def test_a_line_that_is_no_property_is_named_by_its_number_only(path, line):
    path.write_text(f"client.id=a\n{line}")
    with pytest.raises(OptionError) as raised:
        read_properties("--kafka-properties", path)
    assert str(raised.value) == (
        f"--kafka-properties is {path}, whose line 2 is no property; expected key=value, such as security.protocol=SSL"
    )


def test_a_file_that_cannot_be_read_is_named(path):
    with pytest.raises(OptionError, match=r"^--kafka-properties is .*, which cannot be read: No such file"):
        read_properties("--kafka-properties", path)
    path.write_bytes(b"sasl.plain.password=\xff")
    with pytest.raises(OptionError, match=r"^--kafka-properties is .*, which is not in UTF-8$"):
        read_properties("--kafka-properties", path)
