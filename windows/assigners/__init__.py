"""Window assigners: they tell which windows a row belongs to."""
