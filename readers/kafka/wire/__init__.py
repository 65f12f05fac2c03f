"""Connections to brokers: from a socket to a login, and what goes over it."""
