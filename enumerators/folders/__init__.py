"""Folders on a disk or in a bucket, for files that outlive a query or are shared by several queries."""
