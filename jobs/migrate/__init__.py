"""``tidegate migrate``: takes over the queries of Spark's built-in Kafka source."""
