"""The directory of an archive: which offsets it holds, in which objects, and where records of a time begin."""
