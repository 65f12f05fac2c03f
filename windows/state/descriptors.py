"""Named state of triggers and window functions, under the names of Flink's Python API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

__all__ = [
    "KeyedStateStore",
    "ListState",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "MergingStateDescriptor",
    "ReducingState",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "ValueState",
    "ValueStateDescriptor",
]


class _State:
    """One value in a dictionary of values by name."""

    def __init__(self, values: dict[str, Any], name: str) -> None:
        self._values, self._name = values, name

    def clear(self) -> None:
        """Remove the value."""
        self._values.pop(self._name, None)


class ValueState(_State):
    """A single value."""

    def value(self) -> Any:
        """Return the value; None: there is none."""
        return self._values.get(self._name)

    def update(self, value: Any) -> None:
        """Replace the value."""
        self._values[self._name] = value


class ListState(_State):
    """A list of values."""

    def get(self) -> list[Any]:
        """Return the values in the order in which they were added."""
        return list(self._values.get(self._name, ()))

    def add(self, value: Any) -> None:
        """Add a value at the end."""
        self._values.setdefault(self._name, []).append(value)

    def update(self, values: Iterable[Any]) -> None:
        """Replace all values."""
        self._values[self._name] = list(values)


class ReducingState(_State):
    """A value into which further values are reduced."""

    def __init__(self, values: dict[str, Any], name: str, function: Callable[[Any, Any], Any]) -> None:
        super().__init__(values, name)
        self._function = function

    def get(self) -> Any:
        """Return the reduced value; None: nothing was added."""
        return self._values.get(self._name)

    def add(self, value: Any) -> None:
        """Reduce one more value into the state."""
        before = self._values.get(self._name)
        self._values[self._name] = value if before is None else self._function(before, value)


class StateDescriptor(ABC):
    """The name and the kind of a state."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def bind(self, values: dict[str, Any]) -> Any:
        """Return the state of this name in a dictionary of values."""


class MergingStateDescriptor(StateDescriptor):
    """A state that ``merge_partitioned_state`` can merge."""

    @abstractmethod
    def merge(self, held: Sequence[Any]) -> Any:
        """Return one value for those of several windows; there is at least one."""


class ValueStateDescriptor(StateDescriptor):
    """A ``ValueState``."""

    def bind(self, values: dict[str, Any]) -> ValueState:
        """Return the state of this name in a dictionary of values."""
        return ValueState(values, self.name)


class MapStateDescriptor(StateDescriptor):
    """A dictionary."""

    def bind(self, values: dict[str, Any]) -> MutableMapping[Any, Any]:
        """Return the dictionary of this name."""
        state: MutableMapping[Any, Any] = values.setdefault(self.name, {})
        return state


class ListStateDescriptor(MergingStateDescriptor):
    """A ``ListState``."""

    def bind(self, values: dict[str, Any]) -> ListState:
        """Return the state of this name in a dictionary of values."""
        return ListState(values, self.name)

    def merge(self, held: Sequence[Any]) -> Any:
        """Return all values, window after window."""
        return [value for values in held for value in values]


class ReducingStateDescriptor(MergingStateDescriptor):
    """A ``ReducingState``.

    function: takes two values and returns one.
    """

    def __init__(self, name: str, function: Callable[[Any, Any], Any]) -> None:
        super().__init__(name)
        self.function = function

    def bind(self, values: dict[str, Any]) -> ReducingState:
        """Return the state of this name in a dictionary of values."""
        return ReducingState(values, self.name, self.function)

    def merge(self, held: Sequence[Any]) -> Any:
        """Return the values reduced to one."""
        merged = held[0]
        for value in held[1:]:
            merged = self.function(merged, value)
        return merged


class KeyedStateStore:
    """The states of one window, or of one key, by their descriptors."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def get_state(self, descriptor: StateDescriptor) -> Any:
        """Return the state of the descriptor's name and kind."""
        return descriptor.bind(self._values)
