"""Mistakes that the author of a connector may make, each in a copy of the example's outbox: a text, and another one."""

import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import outbox
from harness import OutboxHarness

from tests.conformance.mutants.patched import changed
from tests.conformance.references import Mutant

_TEXT = Path(outbox.__file__).read_text(encoding="utf-8")
_PEEK = """AND id >= ? ORDER BY id"
        return {s: next(self._heads(query, s, position"""
_LOOKUP = "SELECT min(id), at_ms FROM outbox WHERE shard = ? AND at_ms >= ? HAVING min(id) IS NOT NULL"
_LOST = "(extent is None or extent.begin > wanted.start)"
_FOUND = 'return [shard for (shard,) in self._database.rows("SELECT shard FROM shards")]'
_COMES_AND_GOES = """self._odd = not getattr(self, "_odd", False)
        there = self._database.rows("SELECT shard FROM shards WHERE ? OR NOT complete", self._odd)
        return [shard for (shard,) in there]"""
_BEGIN = "(SELECT min(id) FROM outbox o WHERE o.shard = s.shard)"


def mistaken(*change):
    """Return a harness of a copy of the outbox with a change."""

    @cache
    def copied():
        module = ModuleType(f"outbox_with_{hash(change)}")
        sys.modules[module.__name__] = module  # pydantic looks there for the types of fields
        exec(compile(changed(_TEXT, change), module.__name__, "exec"), module.__dict__)  # noqa: S102
        return module

    class Mistaken(OutboxHarness):
        def source(self, options):
            return copied().OutboxSource.from_options({"database": str(self.path), **options})

    return Mistaken


MISTAKES = [
    ("latest looks at 100 rows", "TIME-26", 'ORDER BY at_ms DESC"', 'ORDER BY at_ms DESC LIMIT 100"'),
    ("latest counts the row at the end", "TIME-4", "id < ? ORDER BY at_ms", "id <= ? ORDER BY at_ms"),
    ("peek looks at 100 rows", "TIME-26", _PEEK, _PEEK.replace("ORDER BY id", "ORDER BY id LIMIT 100", 1)),
    ("peek skips the position", "TIME-1", _PEEK, _PEEK.replace("id >=", "id >")),
    ("peek takes the oldest row", "TIME-1", _PEEK, _PEEK.replace("BY id", "BY at_ms", 1)),
    (
        "lookup takes the oldest row",
        "TIME-6",
        _LOOKUP,
        _LOOKUP.replace("min(id), ", "id, ", 1).replace("HAVING min(id) IS NOT NULL", "ORDER BY at_ms, id LIMIT 1"),
    ),
    ("lookup returns the time that was requested", "TIME-6", "else Head(*row)", "else Head(row[0], event_time_ms)"),
    ("one lost row is none", "READ-27", _LOST, _LOST.replace("start)", "start + 1)")),
    ("only a whole range is lost", "READ-27", _LOST, "extent.begin >= wanted.end > wanted.start"),
    (
        "a shard without rows lost none",
        "READ-27",
        _LOST,
        _LOST.replace("extent.begin > wanted.start", "wanted.start < extent.begin < extent.end"),
    ),
    ("loss ends the query in spite of the option", "READ-14", "self._source.fail_on_data_loss and (", "("),
    ("a shard that is gone is no loss", "LIFE-11", _LOST, "extent and extent.begin > wanted.start"),
    ("a begin is a row early", "SPLIT-20", _BEGIN, _BEGIN.replace("min(id)", "max(0, min(id) - 1)")),
    ("a begin is that of all shards", "SPLIT-20", _BEGIN, "(SELECT min(id) FROM outbox)"),
    ("a query begins at 0", "SPLIT-12", "else extent.begin for", "else 0 for"),
    (
        "a shard without rows is complete",
        "SPLIT-14",
        "complete=bool(row[2])",
        "complete=bool(row[2]) or row[0] == row[1]",
    ),
    (
        "a complete shard comes and goes",
        "SPLIT-14",
        _FOUND,
        _COMES_AND_GOES,
    ),
    (
        "only open shards are found",
        "SPLIT-14",
        "SELECT shard FROM shards",
        "SELECT shard FROM shards WHERE NOT complete",
    ),
    ("later shards begin at their end, too", "SPLIT-1", "at_end = first and ", "at_end = "),
    ("rows are fetched by one page", "READ-5", 'AND id < ? ORDER BY id"', 'AND id < ? ORDER BY id LIMIT 10000"'),
    ("rows come by their times", "READ-18", 'AND id < ? ORDER BY id"', 'AND id < ? ORDER BY at_ms"'),
]

MUTANTS = [Mutant(what, killer, "", mistaken(*change)) for what, killer, *change in MISTAKES]
