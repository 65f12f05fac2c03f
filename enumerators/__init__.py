"""The driver's part of a source: discovering splits, planning batches, writing offsets."""
