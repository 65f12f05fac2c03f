"""Folders on a disk or in a bucket, for what outlives a query or is shared by several."""
