"""Floor 2: what runs on the executors.  Fetches ranges of splits and decodes them to Arrow."""
