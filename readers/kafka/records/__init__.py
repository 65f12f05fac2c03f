"""Record batches in the brokers' format, and the records in them."""
