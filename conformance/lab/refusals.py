"""Judges refusals of a connector: an error of tidegate, in one sentence."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.conformance.lab.lab import Lab
from tidegate.errors import TidegateError

_LONGEST = 600
_TRACES = ("Traceback (most recent call last)", 'File "', "<object object", " object at 0x")


def refusal(
    lab: Lab, doing: str, call: Callable[[], object], kind: type[TidegateError] = TidegateError
) -> TidegateError | None:
    """Return the error of a call that refuses; None: it raises nothing.

    Raises ConformanceError if it raises another error, or not one sentence.
    """
    try:
        call()
    except kind as error:
        expect_sentence(lab, doing, error)
        return error
    except AssertionError:
        raise  # the kit's own complaint
    except Exception as error:
        raise lab.fail(f"{doing}: raises {type(error).__name__} ({error}) instead of {kind.__name__}") from error
    return None


def expect_sentence(lab: Lab, doing: str, error: TidegateError) -> None:
    """Raise ConformanceError unless an error is one sentence for people."""
    text = str(error)
    name = type(error).__name__
    lab.expect(text.strip(), f"{doing}: raises {name} without a word")
    lab.expect("\n" not in text.strip(), f"{doing}: raises {name} with several lines instead of one sentence: {text}")
    lab.expect(len(text) <= _LONGEST, f"{doing}: raises {name} with {len(text)} characters: {text[:_LONGEST]}...")
    traces = [trace for trace in _TRACES if trace in text]
    lab.expect(not traces, f"{doing}: raises {name} with what only programmers read ({traces}): {text}")
