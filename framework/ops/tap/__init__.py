"""Live records as a run would decode, route and write them."""
