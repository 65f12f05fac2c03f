"""The errors of the kit."""

from __future__ import annotations


class ConformanceError(AssertionError):
    """A connector breaks a rule.  The message has the failure, and the steps that led to it."""


class WaitedError(ConformanceError):
    """An event that must come did not come in time."""


class UndiscoveredError(WaitedError):
    """An enumerator does not find rows that were written, so that nothing can be tested."""


class SkippedError(Exception):
    """A rule cannot be tested here; the message gives the reason."""


class NotApplicableError(SkippedError):
    """A rule is about an ability that the connector lacks, so it cannot be tested anywhere."""
