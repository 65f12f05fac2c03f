"""Floor 3: what runs on the driver.  Discovers splits, plans batches, and keeps the checkpoint."""
