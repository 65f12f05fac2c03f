"""Record batches, as brokers hold them, and the records in them."""
