"""Every code of a finding or an error: meaning, cause and remedy."""
