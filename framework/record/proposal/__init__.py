"""What a pipeline for some records might say."""
