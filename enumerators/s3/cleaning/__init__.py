"""Archives or deletes objects that were read for good."""
