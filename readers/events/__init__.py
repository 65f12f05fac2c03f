"""Source events, which readers on executors send to the coordinator on the driver (FLIP-27)."""
