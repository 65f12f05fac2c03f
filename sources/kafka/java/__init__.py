"""The properties of Kafka's Java clients: their table, their files, and the login modules of JAAS."""
