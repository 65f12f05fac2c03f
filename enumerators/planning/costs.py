"""Counts the cost of ranges, by the connector or by positions."""

from __future__ import annotations

from tidegate.alignment.budget import Budget, CostOf, split_rows
from tidegate.enumerators.contract import SplitEnumerator, SupportsCost
from tidegate.errors import ContractError

__all__ = ["cost_of_rows", "cost_within"]


def cost_of_rows(enumerator: SplitEnumerator) -> CostOf:
    """Return the function that counts rows; it may leave out other units."""
    if isinstance(enumerator, SupportsCost) and not enumerator.positions_are_rows:
        return enumerator.cost
    return split_rows


def cost_within(budget: Budget, enumerator: SplitEnumerator, source: str) -> CostOf:
    """Return the function that counts the units that a budget limits.

    source: the connector's name, for errors.

    Raises ContractError if the connector cannot count one of these units.
    """
    if budget == Budget(rows=budget.rows):
        return cost_of_rows(enumerator)
    if not isinstance(enumerator, SupportsCost):
        raise ContractError(f"the enumerator of {source!r} has no cost(), so that only rows can be limited")
    return enumerator.cost
