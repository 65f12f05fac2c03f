"""Which objects there are, round after round, and which of them are new."""
