"""Archives or deletes objects after all their rows were read and committed."""
