"""``tidegate backfill``: from any source to Parquet."""
