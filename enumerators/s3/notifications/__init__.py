"""New objects as a queue of SQS tells of them."""
