"""Two reads of a batch are equal if each split has the same rows in the same order."""

import pytest

from tests.conformance.memory.reference import MemoryHarness
from tidegate.conformance.abilities import Abilities, Ability
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.lab.query import Batch, Query


@pytest.fixture
def compare():
    labs = []

    def compare(first, second, harness=MemoryHarness):
        labs.append(Lab(harness))
        query = Query(labs[-1], labs[-1].source())
        query.expect_same(Batch(0, {}, {}, first), Batch(0, {}, {}, second), "a batch")

    yield compare
    for lab in labs:
        lab.close()


def test_tasks_may_come_in_another_order(compare):
    compare(["0#9", "0#10", "1#0"], ["1#0", "0#9", "0#10"])


def test_rows_of_a_split_may_not(compare):
    with pytest.raises(ConformanceError, match="the same rows in another order"):
        compare(["0#10", "0#9", "1#0"], ["0#9", "0#10", "1#0"])


def test_rows_may_where_many_share_a_position(compare):
    class Chunks(MemoryHarness):
        abilities = Abilities().cannot(Ability.ROW_POSITIONS, "positions are chunks")

    compare(["0#10", "0#9"], ["0#9", "0#10"], Chunks)


def test_a_row_may_not_be_another(compare):
    with pytest.raises(ConformanceError, match="the second lacks 0#1 and adds 0#2"):
        compare(["0#0", "0#1"], ["0#0", "0#2"])
