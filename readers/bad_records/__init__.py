"""Files of bad records, for every connector."""
