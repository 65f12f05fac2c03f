"""Discovery of new objects, in rounds: listings, and objects that are left out."""
