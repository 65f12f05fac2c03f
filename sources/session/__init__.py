"""A Spark session: registering sources with it, and settings that make Python workers faster."""
