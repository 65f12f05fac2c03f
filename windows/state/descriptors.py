"""Named state of triggers and window functions, under the names of Flink's Python API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any


class _State:
    """One value in a dictionary of values by name.  State without a value has no entry, so that nothing is stored."""

    def __init__(self, values: dict[str, Any], name: str) -> None:
        self._values, self._name = values, name

    def clear(self) -> None:
        """Remove the value."""
        self._values.pop(self._name, None)


class ValueState(_State):
    """A single value."""

    def value(self) -> Any:
        """Return the value."""
        return self._values.get(self._name)

    def update(self, value: Any) -> None:
        """Replace the value, or remove it (None)."""
        if value is None:
            self.clear()
        else:
            self._values[self._name] = value


class ListState(_State):
    """A list of values."""

    def get(self) -> list[Any]:
        """Return the values in the order in which they were added."""
        return list(self._values.get(self._name, ()))

    def add(self, value: Any) -> None:
        """Add a value at the end."""
        self._values.setdefault(self._name, []).append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Add values at the end."""
        self.update([*self.get(), *values])

    def update(self, values: Iterable[Any]) -> None:
        """Replace all values."""
        if held := list(values):
            self._values[self._name] = held
        else:
            self.clear()


class MapState(_State, MutableMapping[Any, Any]):
    """A dictionary, which also has the methods of Flink's."""

    def __getitem__(self, key: Any) -> Any:
        return self._held[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values.setdefault(self._name, {})[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._held[key]
        if not self._held:
            _State.clear(self)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        """Remove all entries."""
        _State.clear(self)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        self[key] = value

    def put_all(self, entries: Mapping[Any, Any]) -> None:
        """Set the values of several keys."""
        self.update(entries)

    def remove(self, key: Any) -> None:
        """Remove a key, if it is there."""
        self.pop(key, None)

    def contains(self, key: Any) -> bool:
        """Return whether a key is there."""
        return key in self

    def is_empty(self) -> bool:
        """Return whether it is empty."""
        return not self

    @property
    def _held(self) -> dict[Any, Any]:
        held: dict[Any, Any] = self._values.get(self._name, {})
        return held


class ReducingState(_State):
    """A value into which further values are reduced."""

    def __init__(self, values: dict[str, Any], name: str, function: Callable[[Any, Any], Any]) -> None:
        super().__init__(values, name)
        self._function = function

    def get(self) -> Any:
        """Return the reduced value."""
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
        """Return one value for those of several windows, at least one."""


class ValueStateDescriptor(StateDescriptor):
    """A ``ValueState``."""

    def bind(self, values: dict[str, Any]) -> ValueState:
        """Return the state of this name in a dictionary of values."""
        return ValueState(values, self.name)


class MapStateDescriptor(StateDescriptor):
    """A ``MapState``."""

    def bind(self, values: dict[str, Any]) -> MapState:
        """Return the state of this name in a dictionary of values."""
        return MapState(values, self.name)


class ListStateDescriptor(MergingStateDescriptor):
    """A ``ListState``."""

    def bind(self, values: dict[str, Any]) -> ListState:
        """Return the state of this name in a dictionary of values."""
        return ListState(values, self.name)

    def merge(self, held: Sequence[Any]) -> Any:
        """Return all values, window after window."""
        return [value for values in held for value in values]


class ReducingStateDescriptor(MergingStateDescriptor):
    """A ``ReducingState``, by a function of two values."""

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

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """Return a list."""
        return descriptor.bind(self._values)

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState:
        """Return a dictionary."""
        return descriptor.bind(self._values)

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState:
        """Return a value into which further values are reduced."""
        return descriptor.bind(self._values)
