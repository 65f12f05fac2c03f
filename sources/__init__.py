"""Floor 4: what users register, and the one bridge to PySpark's data source API."""
