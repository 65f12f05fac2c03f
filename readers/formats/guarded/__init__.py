"""Formats whose libraries may end the process, run in a process of their own: any format can be wrapped."""
