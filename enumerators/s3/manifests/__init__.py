"""Manifests: the chunks of objects in the order of their event times."""
