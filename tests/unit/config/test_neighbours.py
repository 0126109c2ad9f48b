"""What the loader says of other parts is what they do."""

from __future__ import annotations

from framework.adapters.kafka.client import OWNED
from framework.config.rules.target.connections import OWN_KAFKA
from framework.config.values.time_format import DIRECTIVES
from framework.record.convert.iso_time import check_format


def test_settings_that_floe_owns() -> None:
    """Every Kafka setting that a connection may not have is refused when the file is checked, not when it runs."""
    assert OWNED - set(OWN_KAFKA) == set()


def test_directives_of_dates() -> None:
    """A strptime directive passes the check of a file exactly when records can be read with it."""
    letters = "aAbBcCdDeFgGhHIjklmMnpPqQrRsStTuUvVwWxXyYzZ%f"

    assert {letter for letter in letters if check_format(f"%{letter}") is None} == DIRECTIVES
