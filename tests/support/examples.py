"""The number of examples that Hypothesis makes up for a test: the first ones, which are the same in each run.

A test says how many it takes to try a change of the code that it tests.  ``pytest --hypothesis-profile=explore`` tries
as many, and other ones each time.  Each run of all tests tries a part of them, for most changes are elsewhere.
"""

import pytest
from hypothesis import settings

_SETTINGS = "_hypothesis_internal_use_settings"  # there is no public name for them


def share_of_examples(config):
    """Return how many times fewer examples this run tries than the tests ask for."""
    if config.getoption("--hypothesis-profile") == "explore":
        return 1
    return 10 if config.option.quick else 3


def try_fewer(share, items):
    """Let all tests try so many times fewer examples."""
    functions = [item for item in items if isinstance(item, pytest.Function)]
    machines = {item.cls for item in functions if item.cls is not None}
    for tests, name in [({item.function for item in functions}, _SETTINGS), (machines, "settings")]:
        for test in tests:
            own = getattr(test, name, None)
            if isinstance(own, settings):
                setattr(test, name, settings(own, max_examples=max(1, own.max_examples // share)))
