INTERFACE: int

# Addresses of the values' bytes, of 64-bit offsets (one more than values), and of room for 16 bytes a value.
def hash_values(data: int, offsets: int, count: int, results: int, person: bytes, /) -> None: ...

# The same addresses, the number of buckets, and room for 32 bits a value.
def bucket_values(data: int, offsets: int, count: int, buckets: int, results: int, /) -> None: ...

# Addresses of the two words of hashes, ascending by the first, and of those that are looked for, ascending, too; of room
# for so many rows of theirs, and for the places where they are held. Gives how many there are, also beyond the room.
def find_hashes(
    held_high: int,
    held_low: int,
    held_count: int,
    high: int,
    low: int,
    count: int,
    rows: int,
    entries: int,
    room: int,
    /,
) -> int: ...
