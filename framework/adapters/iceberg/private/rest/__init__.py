"""PyIceberg's REST catalog and its tokens, with an end to each request."""
