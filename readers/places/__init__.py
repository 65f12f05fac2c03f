"""Places of files: folders on a disk, and prefixes of buckets."""
