"""Coordinators of real sources, without Spark."""

from contextlib import closing

from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.settings import CoordinatorSettings


def coordinator_over(source, **settings):
    """Return a coordinator of a new run of a source."""
    known = CoordinatorSettings(source.watermarks, **settings)
    return SourceCoordinator(source.connector, source.enumerator, known, cores=2)


def coordinating(source, **settings):
    """Return such a coordinator, which closes at the end of the block."""
    return closing(coordinator_over(source, **settings))
