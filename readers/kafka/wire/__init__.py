"""Connections to brokers: sockets, TLS, logins and frames."""
