"""Rules that need no connector, and a harness that reads nothing, for tests of the runner and of reports."""

from tidegate.conformance.harness import Abilities, Ability, Harness, Writer
from tidegate.conformance.rules import Rule, Tier
from tidegate.errors import ConnectorError


class SmallHarness(Harness):
    name = "small"
    abilities = Abilities().cannot(Ability.HOLES, "nothing leaves any").cannot(Ability.BATCH, "asked for by nobody")

    def source(self, options):
        raise ConnectorError("there is nothing to read from")

    def create_split(self):
        return SmallWriter()


class SmallWriter(Writer):
    def append(self, rows):
        pass


def holds(lab):
    """It holds."""
    lab.saw("a witness")


def breaks(lab):
    """It breaks.

    For a reason. Look at: the cable.
    """
    lab.split()
    raise lab.fail("row 0#7 is missing")


def small_rule(name, test=holds, *, tier=Tier.CONTRACT, needs=(), witness=()):
    return Rule(name, test, tier, frozenset(needs), tuple(witness))


RULES = (
    small_rule("SPLIT-1", needs={Ability.HOLES}),
    small_rule("READ-1"),
    small_rule("READ-2", breaks),
    small_rule("READ-3", breaks),
    small_rule("SPARK-1", tier=Tier.SPARK),
)
