"""S3 on the driver: manifests as splits."""
