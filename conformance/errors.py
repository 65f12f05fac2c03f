"""What the kit raises."""

from __future__ import annotations

__all__ = ["ConformanceError", "NotApplicableError", "NotExercisedError", "SkippedError"]


class ConformanceError(AssertionError):
    """A connector breaks a rule.  The message says what was wrong, and how it came to it."""


class NotExercisedError(ConformanceError):
    """A rule passed without anything having been tested."""


class SkippedError(Exception):
    """A rule cannot be tested here; the message says why."""


class NotApplicableError(SkippedError):
    """A rule is about what the connector does without, so that it cannot be tested anywhere."""
