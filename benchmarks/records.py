"""Records for benchmarks, the same for every contender: orders of a pizza chain, or wide and nested ones.

In: a number and the shape. Out: the JSON bytes of that record, always the same for the same number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

SAUCES = ["tomato", "pesto", "bbq", "alfredo", "marinara", "garlic butter"]
CHEESES = ["mozzarella", "provolone", "cheddar", "goat", "three cheese", "vegan"]
MEATS = ["pepperoni", "sausage", "ham", "bacon", "chicken", "anchovies", "salami"]
VEGGIES = ["mushrooms", "onions", "olives", "peppers", "spinach", "tomatoes", "basil"]
BEGIN = datetime(2026, 1, 1)
DRIFT_EVERY = 100_000
WIDE_COLUMNS = 90

Encode = Callable[[int], bytes]


def order(number: int, at: datetime | None = None) -> dict[str, object]:
    moment = at or BEGIN + timedelta(seconds=number)
    return {
        "order_id": number,
        "store_id": (number * 7919) % 1000,
        "sauce": SAUCES[number % 6],
        "cheese": CHEESES[(number // 6) % 6],
        "meats": [MEATS[number % 7], MEATS[(number // 7) % 7]],
        "veggies": VEGGIES[(number // 3) % 7],
        "date_ordered": moment.isoformat(timespec="milliseconds"),
    }


def dumps(record: dict[str, object]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


def one_table(number: int) -> bytes:
    return dumps(order(number))


def many_tables(namespace: str, tables: int) -> Encode:
    """Orders that name their table: in full in the field `table` (the Connect sink takes it so), and without its
    namespace in `kind` (a floe route has a literal prefix)."""

    def encode(number: int) -> bytes:
        kind = f"pizzas_{((number * 7919) % 1000) % tables:04d}"
        return dumps({**order(number), "kind": kind, "table": f"{namespace}.{kind}"})

    return encode


def wide(number: int) -> bytes:
    """A hundred columns: text, whole numbers, doubles and flags, a struct in a struct, and a list."""
    record = order(number)
    for column in range(WIDE_COLUMNS):
        value = (number * 31 + column * 7) % 1009
        record[f"c{column:02d}"] = (value, value / 8, f"value {value}", value % 2 == 0)[column % 4]
    record["customer"] = {"id": number % 5000, "address": {"city": SAUCES[number % 6], "zip": f"{number % 100000:05d}"}}
    record["scores"] = [value % 100 for value in range(number % 5)]
    record["note"] = "n" * (number % 40)
    return dumps(record)


def columns(count: int) -> Encode:
    """Flat records of so many columns of four kinds."""

    def encode(number: int) -> bytes:
        values = ((number * 31 + column * 7) % 1009 for column in range(count))
        kinds = ((v, v / 8, f"value {v}", v % 2 == 0)[column % 4] for column, v in enumerate(values))
        return dumps({f"c{column:03d}": value for column, value in enumerate(kinds)})

    return encode


def drift(number: int) -> bytes:
    """Every 100,000 records there is one more column."""
    record = order(number)
    for column in range(number // DRIFT_EVERY):
        record[f"added_{column:02d}"] = number % 1000
    return dumps(record)


def one_in(every: int, spoil: Callable[[int], bytes]) -> Encode:
    """Orders of which every so-manieth is spoiled."""
    return lambda number: spoil(number) if number % every == every - 1 else one_table(number)


def no_json(number: int) -> bytes:
    return b'{"order_id": '


def wrong_type(number: int) -> bytes:
    """Text where a number is to be."""
    return dumps({**order(number), "store_id": "store"})


def no_time(number: int) -> bytes:
    return dumps({**order(number), "date_ordered": "yesterday"})


def all_days(number: int) -> bytes:
    """Orders spread over the 365 days of a year."""
    return dumps(order(number, BEGIN + timedelta(days=number % 365, seconds=number % 86_400)))


def repeated(encode: Encode, count: int) -> Encode:
    """The first `count` records over and over, each made once: for topics that take longer to make than to read."""
    made: list[bytes] = []

    def encode_again(number: int) -> bytes:
        if number < count:
            made.append(encode(number))
        return made[number % count]

    return encode_again


def numbered(encode: Encode, count: int) -> Iterator[bytes]:
    return (encode(number) for number in range(count))
