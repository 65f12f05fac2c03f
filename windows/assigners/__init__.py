"""Window assigners: they decide which windows a row belongs to."""
