"""The account of a query: what became of every row that it read.  Pure logic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal, NamedTuple, TypeAlias

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.contract import Json
from tidegate.jobs.figures import count, in_columns, printable

Certainty: TypeAlias = Literal["exact", "by plan", "at least", "at most", "about"]
_OPPOSITE: Mapping[Certainty, Certainty] = {"at least": "at most", "at most": "at least"}
_MOST_SPLITS = 20
_WHY = {  # a figure is a bound
    "read": "offsets may have no record; Spark counts rows, exactly if the plan and the sink read each of them once, "
    "and only the driver's machine keeps its metrics, for a day at least",
    "open": "the count(*) of a single aggregation has the rows in open windows, if no step before it may multiply "
    "rows, and if the account begins with the first batch of the query",
    "late": "Spark counts groups that it drops, and steps of the query may multiply rows before windows of tidegate",
}
_NAMES = {"read": "rows read", "closed": "in closed windows", "open": "in open windows", "late": "dropped as late"}


class Figure(NamedTuple):
    """A number of rows.

    rows: how many, if anything is known.
    bound: ``exact``; ``by plan``: exact if records keep to what the options say of them; ``at least`` or
        ``at most``; ``about``: an estimate, or what the bounds of other figures leave.
    """

    rows: int | None
    bound: Certainty = "exact"

    def __str__(self) -> str:
        if self.rows is None:
            return "unknown"
        rows = count(self.rows)
        return {"exact": rows, "by plan": f"{rows} by the plan"}.get(self.bound, f"{self.bound} {rows}")


NO_ROWS = Figure(0)


def total(figures: Iterable[Figure]) -> Figure:
    """Return the sum of figures."""
    each = [*figures]
    if any(figure.rows is None for figure in each):
        return Figure(None)
    return Figure(sum(figure.rows or 0 for figure in each), _bound([figure.bound for figure in each], []))


@dataclass(frozen=True, slots=True)
class SourceAccount:
    """The share of one source.

    reads: what is read, such as topics and servers; from outside, the connector and the place in the query.
    read: its rows, including those that were set aside.
    by_split: how many rows of each split were read, where positions count rows, as in Kafka; offsets without a record
        also count.
    unselected: how many of its positions gave no row, if it has a condition, such as ``where`` of Kafka: the condition
        left out their records, or they have none.
    """

    reads: str
    read: Figure
    set_aside: Figure = NO_ROWS
    by_split: Mapping[SplitId, int] = field(default_factory=dict)
    unselected: Figure = NO_ROWS

    @property
    def bound_of_splits(self) -> Certainty:
        """``exact`` if each offset had a record."""
        return "exact" if self.read == Figure(sum(self.by_split.values())) else "at most"


def added(shares: Sequence[SourceAccount]) -> SourceAccount:
    """Return the share of a source in several runs, the oldest first."""
    by_split = sum((Counter(share.by_split) for share in shares), Counter[SplitId]())
    read, set_aside = total(share.read for share in shares), total(share.set_aside for share in shares)
    return SourceAccount(shares[-1].reads, read, set_aside, by_split, total(share.unselected for share in shares))


class BatchesAccount(NamedTuple):
    """The share of some batches.

    sources: the shares of the sources in it, by their names in the query.
    late: their rows that Spark, or windows of tidegate, dropped as late.
    missing: sentences on what is not known.
    """

    sources: Mapping[str, SourceAccount]
    late: Figure
    missing: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account of a query.  Its figures add up: read = closed + open + late + set_aside.

    batches: the first and the last batch that it covers, if there is one.
    read: all rows read.
    closed: rows whose windows were emitted.  Rows that wait for nothing, such as those of a query without windows, and
        those that the query itself filters out, count here.
    open: rows in windows that wait for the watermark, in Spark's state.
    late: rows that Spark, or windows of tidegate, dropped as late.
    set_aside: bad records that were set aside.
    missing: sentences on what is not known.
    sources: the shares of the sources, in Spark's order.
    """

    batches: tuple[int, int] | None
    read: Figure
    closed: Figure
    open: Figure
    late: Figure
    set_aside: Figure
    missing: tuple[str, ...] = ()
    sources: tuple[SourceAccount, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether it is known that no row is missing, although figures may be bounds.

        Each row was dropped as late, set aside, or is in a window, closed or open.  An account by the plan of some
        batches is not complete: it trusts that nothing was lost while they were read.
        """
        return not self.missing and not self._is_by_plan

    @property
    def _is_by_plan(self) -> bool:
        return self.late.bound == "by plan" or self.set_aside.bound != "exact"

    @property
    def why(self) -> tuple[str, ...]:
        """Sentences on why figures are bounds."""
        return tuple(
            sentence for name, sentence in _WHY.items() if getattr(self, name).bound not in {"exact", "by plan"}
        )

    @property
    def headline(self) -> str:
        """``late rows 0, complete``, or what was lost or is missing, in one line."""
        if self.missing:
            return f"late rows {self.late}, not complete: {self.missing[0]}"
        complete = "complete" if self.late.rows == 0 else "the rest complete"
        return f"late rows {self.late}, {complete}{' by the plan' if self._is_by_plan else ''}"

    @property
    def _is_well(self) -> bool:
        """Whether every row is accounted for, and none is lost."""
        return self.complete and self.late.rows == 0

    def lines(self) -> list[tuple[str, str]]:
        """Return names and values for display; if all is well, without splits, and of zeros only rows read."""
        figures = {**{name: getattr(self, key) for key, name in _NAMES.items()}, "set aside": self.set_aside}
        lines = [
            (name, str(figure))
            for name, figure in figures.items()
            if name == _NAMES["read"] or not (self._is_well and figure == NO_ROWS)
        ]
        unselected = total(source.unselected for source in self.sources)
        if unselected.rows != 0:
            lines.append(("left out by where, or empty", str(unselected)))
        if len(self.sources) > 1:
            lines += [(one.reads, f"{one.read} read, {one.set_aside} set aside") for one in self.sources]
        splits = [
            (split, str(Figure(rows, source.bound_of_splits)))
            for source in (() if self._is_well else self.sources)
            for split, rows in sorted(source.by_split.items())
        ]
        lines += splits[:_MOST_SPLITS]
        if len(splits) > _MOST_SPLITS:
            lines.append((f"and {count(len(splits) - _MOST_SPLITS)} more splits", ""))
        if self.batches is not None:
            lines.append(("batches", f"{self.batches[0]} to {self.batches[1]}"))
        return [(printable(name), printable(value)) for name, value in lines]

    def to_json(self) -> Json:
        """Return the account as JSON; ``bounds`` has the figures that are not exact."""
        figures = {name: getattr(self, name) for name in _NAMES} | {"setAside": self.set_aside}
        return {
            **{name: figure.rows for name, figure in figures.items()},
            "complete": self.complete,
            "missing": [*self.missing],
            "why": [*self.why],
            "bounds": {name: figure.bound for name, figure in figures.items() if figure.bound != "exact"},
            "batches": None if self.batches is None else [*self.batches],
            "sources": [
                {
                    "reads": source.reads,
                    "read": source.read.rows,
                    "setAside": source.set_aside.rows,
                    **({} if source.unselected.rows == 0 else {"unselected": source.unselected.rows}),
                    "bySplit": dict(sorted(source.by_split.items())),
                }
                for source in self.sources
            ],
        }

    def __str__(self) -> str:
        missing = [f"not known: {printable(sentence)}" for sentence in self.missing]
        why = [f"not exact: {sentence}" for sentence in self.why]
        return "\n".join([*in_columns(self.lines()), *why, printable(self.headline), *missing[1:]])

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in self.lines())
        missing = "".join(f"<p>{escape(sentence)}</p>" for sentence in [*self.missing[1:], *self.why])
        return f"<p><b>{escape(self.headline)}</b></p>{missing}<table>{cells}</table>"


def balanced(
    *,
    batches: tuple[int, int] | None,
    sources: Sequence[SourceAccount],
    late: Figure = NO_ROWS,
    open_: Figure = NO_ROWS,
    missing: Iterable[str] = (),
) -> Account:
    """Return the account in which the rows that are neither open, late nor set aside are closed.

    late, open_: may be more than what is read, or have no number: then they are at most all rows.
    """
    read, set_aside = total(source.read for source in sources), total(source.set_aside for source in sources)
    if read.rows is None:
        closed = Figure(None)
    else:
        if (set_aside.rows or 0) > read.rows:
            set_aside = Figure(read.rows, "at least")
        left = read.rows - (set_aside.rows or 0)
        if _is_known(open_) and not _is_known(late):  # what is known is not cut by a bound
            open_, late = _shared(open_, late, left)
        else:
            late, open_ = _shared(late, open_, left)
        rows = left - (late.rows or 0) - (open_.rows or 0)
        bound = _bound([read.bound], [set_aside.bound, late.bound, open_.bound])
        closed = Figure(rows, bound if rows or bound != "about" else "at least")
    return Account(
        batches=batches,
        read=read,
        closed=closed,
        open=open_,
        late=late,
        set_aside=set_aside,
        missing=tuple(missing),
        sources=tuple(sources),
    )


def _is_known(figure: Figure) -> bool:
    """Return whether so many rows, if not more, have this fate."""
    return figure.rows is not None and figure.bound not in {"at most", "about"}


def _shared(one: Figure, other: Figure, most: int) -> tuple[Figure, Figure]:
    """Return two figures, the second one cut to what the first one leaves of some rows."""
    one = _cut(one, most, "at most")
    return one, _cut(other, most - (one.rows or 0), "at most" if _is_known(one) else "about")


def _cut(figure: Figure, most: int, bound: Certainty) -> Figure:
    return figure if figure.rows is not None and figure.rows <= most else Figure(most, bound)


def _bound(added: Iterable[Certainty], taken: Iterable[Certainty]) -> Certainty:
    """Return the bound of a sum of figures, less others."""
    bounds = {*added, *(_OPPOSITE.get(bound, bound) for bound in taken)} - {"exact"}
    if len(bounds) > 1:
        bounds -= {"by plan"}
    return bounds.pop() if len(bounds) == 1 else "about" if bounds else "exact"
