"""Discovers new objects by the messages of an SQS queue."""
