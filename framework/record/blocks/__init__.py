"""One block of records, whole; what isolates the records that break it."""
