"""Infers columns from the first objects, and checks options against them, before any object is read."""
