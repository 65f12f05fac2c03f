"""Decoder processes, for formats whose libraries may end the process."""
