"""A short run of fuzz_batches."""

from tests.readers.kafka.records.fuzz_batches import fuzz


def test_damaged_batches_are_read_or_corrupt():
    outcomes = fuzz(3_000)
    assert sum(outcomes.values()) == 3_000
    # Both outcomes happen, so the mutants are neither all corrupt nor all harmless.
    for way in ("bytes", "sealed", "response"):
        assert outcomes[f"{way}: corrupt"] > 20, outcomes
        assert outcomes[f"{way}: read"] > 20, outcomes
