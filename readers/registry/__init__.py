"""Values whose schema is in a registry: Confluent's wire format, Avro and Protobuf."""
