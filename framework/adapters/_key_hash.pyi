INTERFACE: int

# Addresses of the values' bytes, of 64-bit offsets (one more than values), and of room for 16 bytes a value.
def hash_values(data: int, offsets: int, count: int, results: int, person: bytes, /) -> None: ...
