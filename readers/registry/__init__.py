"""Values with a schema in a registry: Confluent's wire format, Avro and Protobuf."""
