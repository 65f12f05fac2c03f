"""SPLIT: discovery of splits."""
