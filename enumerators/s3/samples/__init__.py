"""The first objects, before any is read: infers columns, and checks options."""
