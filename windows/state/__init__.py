"""The state of one key: named values, timers, panes, and the store that keeps them as bytes."""
