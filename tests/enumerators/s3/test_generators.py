"""The manifests that a watermark generator still needs, because it has not seen the rows of the last batch."""

from contextlib import closing

from tests.enumerators.s3.objects import enumerator
from tests.enumerators.s3.queries import MOST_MANIFESTS, open_ledger
from tests.support.command import await_that
from tidegate.alignment.splits import NEVER_MS, Extent, SplitRange


def test_a_manifest_that_a_generator_still_needs_holds_the_others_until_a_round_found_nothing(store):
    store.put("a", [5])
    with closing(enumerator(store, None, holds_group=True)) as source:
        (split,) = source.discover()
        source.begin_plan({split: 1}, NEVER_MS)
        source.commit({split: 0})
        assert not source.extents([split])[split].settled
        source.discover()
        assert source.extents([split])[split] == Extent(0, 1, complete=False)


def test_what_a_generator_has_not_seen_yet_is_not_delivered_again_by_a_merged_manifest(store, tmp_path, holds_group):
    cleaned = []
    clean = lambda obj: cleaned.append(obj.key) or True  # noqa: E731
    with closing(enumerator(store, open_ledger(tmp_path), holds_group=holds_group, clean=clean)) as source:
        for number in range(MOST_MANIFESTS + 1):
            read = dict.fromkeys(source.live, 1)
            source.begin_plan(read, NEVER_MS)
            source.commit(dict.fromkeys(read, 0))
            store.put(str(number), [number])
            source.discover()
        rests = [SplitRange(s, read.get(s, 0), len(manifest)) for s, manifest in source.live.items()]
        assert [chunk.key for rest in rests for chunk in source.details(rest)] == [str(MOST_MANIFESTS)]
        assert len(source.live) == 1 + holds_group
        await_that(lambda: len(cleaned) == MOST_MANIFESTS - holds_group)
