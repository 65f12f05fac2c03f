import inspect
from types import SimpleNamespace

from tests.alignment.logs import KafkaLike
from tidegate.alignment.index import SupportsPeek, SupportsTimeIndex
from tidegate.conformance.lab.blind import Blind


def test_a_blind_enumerator_has_all_but_its_time_index():
    enumerator = Blind(SimpleNamespace(enumerator=lambda state: KafkaLike({}))).enumerator(None)
    assert isinstance(enumerator, SupportsPeek)
    assert not isinstance(enumerator, SupportsTimeIndex)
    # isinstance() asks this from Python 3.12 on.
    assert inspect.getattr_static(enumerator, "peek")
