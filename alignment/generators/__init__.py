"""Watermarks made by a user's code: the contract, generators that are ready, and how a source combines their splits."""
