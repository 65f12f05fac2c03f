"""Bad records: files of them, for every connector."""
