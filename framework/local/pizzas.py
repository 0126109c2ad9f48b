"""Orders of a pizza chain, one after another, for as long as somebody watches.

A random generator and a moment come in, an order as a JSON record goes out; `produce` writes them at a steady rate.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timezone

from confluent_kafka import Producer

TOPIC = "completed-pizzas"
_SAUCES = ("regular", "light", "extra", "none", "alfredo")
_CHEESES = ("regular", "extra", "light", "none", "three cheeses")
_MEATS = ("pepperoni", "sausage", "bacon", "ham", "pepperoni & salami", "none")
_VEGGIES = ("tomato", "olives", "mushrooms", "peppers & onions", "banana peppers", "none")


def order(dice: random.Random, moment: datetime) -> bytes:
    """One order. `date_ordered` is UTC written without a zone, as many order systems do."""
    value = {
        "order_id": str(uuid.UUID(int=dice.getrandbits(128), version=4)),
        "store_id": dice.randint(1, 250),
        "sauce": dice.choice(_SAUCES),
        "cheese": dice.choice(_CHEESES),
        "meats": dice.choice(_MEATS),
        "veggies": dice.choice(_VEGGIES),
        "date_ordered": moment.strftime("%Y-%m-%d %H:%M:%S"),
    }
    return json.dumps(value).encode()


def produce(
    bootstrap_servers: str, rate: float, seconds: float | None, reported: Callable[[int], None], dice: random.Random
) -> int:
    """Writes `rate` orders a second for `seconds`, or until Ctrl-C; returns how many the broker has.

    Args:
        reported: called about once a second with the number of orders so far.
    """
    quiet = {"log_level": 3}  # a broker that has just started answers "load in progress" first, which is no news
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 20, **quiet})
    began = time.monotonic()
    sent = shown = 0
    try:
        while seconds is None or time.monotonic() - began < seconds:
            due = int((time.monotonic() - began) * rate) + 1
            for _ in range(due - sent):
                producer.produce(TOPIC, order(dice, datetime.now(timezone.utc)))
                producer.poll(0)
            sent = due
            if time.monotonic() - began >= shown:
                shown += 1
                reported(sent)
            time.sleep(min(0.05, 1 / rate))
    except KeyboardInterrupt:
        reported(sent)  # Ctrl-C is how a person ends it
    finally:
        left = producer.flush(30)
    return sent - left
