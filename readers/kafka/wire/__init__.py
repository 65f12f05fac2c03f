"""Connections to brokers: sockets, proxies, TLS, logins and frames."""
