"""Record batches to Arrow and back, many records at a time."""
