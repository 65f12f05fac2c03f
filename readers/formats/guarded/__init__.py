"""Runs formats whose libraries may end the process in a process of their own: any format can be wrapped."""
