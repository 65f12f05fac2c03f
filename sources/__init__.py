"""Sources that users register, and the one bridge to PySpark's data source API."""
