"""Some lives of queries; ``python -m tests.lives`` lives thousands."""

import logging

import pytest

from tests.lives.__main__ import complaint
from tests.lives.making import make

LIVES = 20


@pytest.fixture
def _no_log():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("_no_log")
@pytest.mark.parametrize("first", range(1, 5 * LIVES, LIVES))
def test_random_lives_keep_every_promise(first):
    for seed in range(first, first + LIVES):
        wrong = complaint(make(seed))
        assert wrong is None, f"`python -m tests.lives --seed {seed} --only` shows the shortest life in which: {wrong}"
