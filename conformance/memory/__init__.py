"""The reference connector, over rows in memory."""
