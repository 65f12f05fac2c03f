"""``tidegate preview``: what a query would lose and need, from Kafka's time index."""
