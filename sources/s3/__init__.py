"""The S3 source and its options."""
