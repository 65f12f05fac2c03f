"""What a query keeps in its state location."""
