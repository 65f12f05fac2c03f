"""Leases that only a test renews, and a clock that lets others act meanwhile."""

from __future__ import annotations

from tests.support.clocks import Clock
from tidegate.enumerators.s3.state.lease import Lease


def lease(folder, clock, lease_s=30.0) -> Lease:
    return Lease(folder, lease_s=lease_s, clocks=clock.clocks)


class Rival(Clock):
    """Lets others act while someone sleeps."""

    def __init__(self, meanwhile):
        super().__init__()
        self.meanwhile = meanwhile

    def sleep(self, seconds):
        super().sleep(seconds)
        self.meanwhile(self.now)
