"""Places of files: a folder on a disk, or a prefix of a bucket."""
