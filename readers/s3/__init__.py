"""S3: the split reader of executors, and the store of objects that the driver reads from, too."""
