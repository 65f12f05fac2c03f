import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.alignment.logs import Entry, KafkaLike, Log, PeekOnly, log
from tidegate.alignment.cuts import Cutter, Span
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.splits import Extent, Head
from tidegate.errors import ContractError


def cutter(source):
    index = TimeIndex(source)
    heads = index.heads(dict.fromkeys(source.logs, 0))
    spans = {s: Span(head, 0, source.logs[s].end) for s, head in heads.items() if head is not None}
    return Cutter(index, spans), index


class TestTimeIndex:
    def test_what_is_read_and_who_is_gone_is_forgotten(self):
        index = TimeIndex(KafkaLike({"a": log(5, 6), "b": log(7)}))
        index.heads({"a": 0, "b": 0})
        index.heads({"a": 1})
        index.begin_plan({"a": 1}, {"a": Extent(0, 9)})
        index.heads({"a": 1})
        assert index.peeks == 2
        index.heads({"a": 0, "b": 0})
        assert index.peeks == 3

    @pytest.mark.parametrize("now", [Extent(0, 6, epoch=1), Extent(0, 9, epoch=2)])
    def test_what_was_seen_of_a_log_that_is_cut_or_of_another_epoch_is_forgotten(self, now):
        logs = {"a": Log([Entry(0, 5), *(Entry(position, 9, seen=False) for position in range(1, 9))], end=9)}
        index = TimeIndex(KafkaLike(logs))
        index.begin_plan({"a": 1}, {"a": Extent(0, 9, epoch=1)})
        assert index.heads({"a": 1}) == {"a": None}
        assert index.latest({"a": Extent(0, 9)}) == {"a": 5}
        logs["a"] = Log([Entry(0, 5), Entry(1, 6), Entry(2, 7)], end=now.end)
        index.begin_plan({"a": 1}, {"a": now})
        assert index.heads({"a": 1}) == {"a": Head(1, 6)}
        assert index.latest({"a": Extent(0, 9)}) == {"a": 7}

    def test_the_latest_time_is_asked_for_once_per_extent(self):
        index = TimeIndex(KafkaLike({"a": log(5, 9, 6)}))
        assert index.latest({"a": Extent(0, 3)}) == index.latest({"a": Extent(0, 3)}) == {"a": 9}
        assert index.lookups == 1
        assert index.latest({"a": Extent(0, 1)}) == {"a": 5}

    def test_the_latest_time_is_asked_for_again_after_records_were_deleted(self):
        # Otherwise a running planner would hold the others for a record that a restarted planner cannot see.
        logs = {"a": log(5, 9)}
        index = TimeIndex(KafkaLike(logs))
        assert index.latest({"a": Extent(0, 2)}) == {"a": 9}
        logs["a"].begin = 2
        assert index.latest({"a": Extent(2, 2)}) == {"a": None}

    def test_a_source_that_leaves_a_split_out_breaks_its_contract(self):
        class Forgetful(PeekOnly):
            def peek(self, _positions, _horizon):
                return {}

            def latest(self, _ends, _horizon):
                return {}

            def lookup(self, _event_time_ms, _splits):
                return {}

        index = TimeIndex(Forgetful({}))
        with pytest.raises(ContractError, match=r"peek\(\).*'a'"):
            index.heads({"a": 0})
        with pytest.raises(ContractError, match=r"lookup\(\).*'a'"):
            index.lookup(0, {"a": 0})


class Silent(PeekOnly):
    """Leaves the latest event times to peeks."""

    def latest(self, _ends, _horizon):
        return {}


@given(
    logs=st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(0, 60)), min_size=1),
    end=st.integers(0, 70),
    begin=st.integers(0, 20),
    told=st.booleans(),
)
@example(logs={"a": {3, 4}}, end=9, begin=0, told=False)
def test_the_last_record_before_an_end_is_found_by_peeks_whatever_holes_there_are(logs, end, begin, *, told):
    source = Silent({s: Log([Entry(at, 1_000 + at) for at in sorted(log)], end=70) for s, log in logs.items()})
    index, extents = TimeIndex(source), dict.fromkeys(logs, Extent(begin, max(begin, end)))
    if told:
        index.begin_plan(dict.fromkeys(logs, begin), dict.fromkeys(logs, Extent(begin, 70)))
    last = {split: max((at for at in log if begin <= at < end), default=None) for split, log in logs.items()}
    assert index.latest(extents) == {split: None if at is None else 1_000 + at for split, at in last.items()}


class TestCutter:
    def test_a_sample_tells_where_the_records_are(self):
        times = [*range(100), *[1000] * 800, *range(2000, 2100)]
        cuts, _ = cutter(KafkaLike({"a": log(*times), "b": log(*times), "tiny": log(0, 5)}))
        assert cuts.sample({}, cuts.candidates(2100), 0.5) == 1000

    def test_what_one_bisection_saw_serves_the_next(self):
        cuts, index = cutter(PeekOnly({"a": log(*range(3000))}))
        cuts.candidates(1500)
        cold = index.peeks
        cuts.candidates(1400)
        assert index.peeks - cold < cold
