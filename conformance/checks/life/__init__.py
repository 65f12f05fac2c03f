"""LIFE: constructors, closing, options, messages and secrets."""
