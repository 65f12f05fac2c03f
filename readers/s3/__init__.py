"""S3: the split reader of executors, and the object store that the driver uses, too."""
