"""The S3 enumerator deletes the files that it no longer needs, and keeps those that cleaning needs."""

from tests.enumerators.s3.objects import MODIFIED
from tests.enumerators.s3.queries import LATER_S, MOST_MANIFESTS, all_once, open_ledger
from tidegate.enumerators.s3.state.ledger import OFFSETS_REMEMBERED
from tidegate.errors import DeadlineError


def test_orphans_are_swept_and_nothing_that_an_offset_names(query, store):
    one = query(drift_ms=1)
    one.later_s = LATER_S
    open_ledger(one.folder).write("schema", b"of the source's own")
    one.batch()
    orphans = ["00000007-0123456789abcdef", "seen-0123"]
    for name in orphans:
        one.source._folder.ledger.write(name, b"left by a run that was killed")
    for number in range(30):
        store.put(f"{number:02}", [number], [1_000 - number])
        one.pass_time()
        one.batch()
        names = one.files()
        assert {*one.manifests, *one.offset["enumerator"]["seen"]["runs"]} <= set(names)
        assert not set(orphans) & set(names)
        assert len(names) <= MOST_MANIFESTS + 6 * OFFSETS_REMEMBERED
        if number % 4 == 3:
            one.restart()
    one.drain()
    assert one.delivered == all_once(one)


def test_a_query_that_is_begun_later_in_a_location_sweeps_nothing_of_the_first(query, store):
    store.put("a", [1], [1_000])
    first, second = query(drift_ms=1), query(drift_ms=1)
    first.batch()
    first.stop()
    second.later_s = LATER_S
    for number in range(5):
        store.put(f"b{number}", [number])
        second.pass_time()
        second.drain()
    second.stop()
    first.drain()
    for run in (first, second):
        assert run.delivered == all_once(run)


def test_what_is_cleaned_no_more_is_not_named_any_more(query, store):
    def clean(_):
        raise DeadlineError("the endpoint does not answer")

    one = query(clean=clean)
    store.put("a", [1])
    one.drain()
    store.put("b", [1])
    one.pass_time()
    one.drain()
    assert "clean" in one.offset["enumerator"]
    one.fields["clean"] = None
    one.restart()
    store.put("c", [1])
    one.drain()
    assert "clean" not in one.offset["enumerator"]
    assert one.delivered == all_once(one)


def test_what_the_last_offset_names_stays_while_rounds_find_objects_without_a_chunk(query, store):
    one = query()
    one.later_s = LATER_S
    store.put("a", [1])
    one.drain()
    for number in range(2 * OFFSETS_REMEMBERED):
        store.put(f"empty-{number}", modified_ms=MODIFIED + number)
        one.pass_time()
        one.batch()
    one.restart()
    store.put("b", [2])
    one.drain()
    assert one.delivered == all_once(one)
