"""Source events: what readers on executors tell the coordinator on the driver (FLIP-27)."""
