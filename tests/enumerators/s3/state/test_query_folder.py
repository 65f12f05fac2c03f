"""A query's own part of the state location: a file in it stays as long as an offset names it."""

import pytest

from tests.enumerators.s3.queries import open_ledger
from tidegate.enumerators.s3.state.ledger import OFFSETS_REMEMBERED, ORPHAN_S, QueryFolder


@pytest.fixture
def folder(tmp_path):
    made = QueryFolder(open_ledger(tmp_path, later_s=2 * ORPHAN_S), "me", {"path": "s3://b/in/"})
    made.hold()
    yield made
    made.release()


def test_what_one_of_the_last_offsets_names_stays_and_what_none_names_goes(folder):
    folder.write({f"file{number}": b"x" for number in range(OFFSETS_REMEMBERED + 3)})
    for number in range(OFFSETS_REMEMBERED + 1):
        folder.remember([f"file{number}"])
        folder.remember([f"file{number}"])
    folder.sweep([f"file{OFFSETS_REMEMBERED + 1}"])
    left = {name for name in folder.ledger.names() if name.startswith("file")}
    assert left == {f"file{number}" for number in range(1, OFFSETS_REMEMBERED + 2)}
