"""What `floe doctor` checks of a schema registry: does each address answer, and may these credentials see its subjects.

In: a registry connection's settings, secrets resolved. Out: Findings. It only reads, and checks no schema: only
producers know which subjects there should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from framework.adapters.registry import Registry
from framework.adapters.registry_http import addresses_of
from framework.diagnose.counted import counted
from framework.errors import RetriableError
from framework.ops.doctor.model import DoctorFinding, error, ok, warning

_SHOWN = 3


def examine(name: str, connect: Callable[[], Mapping[str, str]]) -> Iterator[DoctorFinding]:
    """Each address in turn; one that does not answer is an error only where no other does."""
    check = f"registry {name}"
    settings = connect()
    answers = 0
    silent: list[RetriableError] = []
    for url in addresses_of(settings):
        try:
            subjects = Registry({**settings, "url": url}).subjects()
        except RetriableError as raised:
            silent.append(raised)
            continue
        answers += 1
        yield ok(check, f"{url} answers; {_reported(subjects)}")
    for each in silent:
        message = f"{each.message} [{each.code}]"
        if answers:
            yield warning(check, message, "start it, or remove it from the url; another address answers for now")
        else:
            yield error(check, message, "start it, or correct the url; until then batches wait and no record is lost")


def _reported(subjects: list[str] | None) -> str:
    if subjects is None:
        return "these credentials may read schemas"
    if not subjects:
        return "these credentials see no subject"
    shown = ", ".join(subjects[:_SHOWN]) + (", ..." if len(subjects) > _SHOWN else "")
    return f"{counted(len(subjects), 'subject')}: {shown}"
