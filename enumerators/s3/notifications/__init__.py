"""New objects by the messages of an SQS queue."""
