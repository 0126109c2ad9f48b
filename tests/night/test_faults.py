"""What a person sees at three in the morning: each fault planted in a live installation, and judged by what the screens say.

FLOE_NIGHT='table dropped;poison' .venv/bin/python -m pytest -s -m chaos tests/night
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.night.faults import FAULTS, Fault
from tests.night.installation import Installation
from tests.night.judge import WITHIN_S, Expected, Verdict, calm, judged
from tests.night.screens import Line, Screen

pytestmark = [
    *(pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos),
    pytest.mark.timeout(900),
]

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "build" / "night.jsonl"
# Whether the coordinator with this clock leads is chance. Where it does, Iceberg's server refuses its snapshots, which is told
# (iceberg/test_wrong_clocks.py); where it does not, there is no trouble.
NOT_JUDGED = ("clock ahead",)
IN_ROTATION = [name for name in FAULTS if name not in NOT_JUDGED]
CHOSEN = os.environ["FLOE_NIGHT"].split(";") if "FLOE_NIGHT" in os.environ else IN_ROTATION
LOOKS = ("floe doctor ", "floe status ", "floe log ", "floe offsets show ", "floe readiness ", "floe dlq stats ")
# All is well; somebody does not answer or refuses; something is in trouble.
ANSWERS = (0, 3, 9)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    where = Installation(tmp_path_factory.mktemp("night"))
    try:
        yield where.start()
    finally:
        where.close()


@pytest.mark.parametrize("name", CHOSEN)
def test_a_fault_is_told_the_same_on_every_screen(installation: Installation, name: str) -> None:
    """Within 15 s status, `top`, page and metrics show the same state, code and words, a `since` that is at most 5 s off and
    what to do; no screen says that all is well; what is shown ends the fault, and then all is well again. What is no trouble is
    not told, and goes on."""
    judge(installation, name)


def judge(installation: Installation, name: str) -> None:
    """Plant a fault, look at the screens, end it as they say, and be well again."""
    fault = FAULTS[name]
    installation.ensure()
    installation.healthy()
    begun_s = time.time()
    try:
        fault.plant(installation)
        planted_s = time.time()
        verdicts = watch(installation, fault, begun_s, planted_s) if fault.expected else []
        complaints = [text for verdict in verdicts for text in verdict.complaints]
        if not fault.expected:
            complaints += goes_on(installation, planted_s)
        complaints += looked_at(installation, verdicts)
        try:
            fault.end(installation, verdicts[0].lines if verdicts else {})
        except AssertionError as error:
            complaints.append(str(error))
            note(name, verdicts, -1.0, complaints)
    finally:
        installation.reset()
    ended_s = time.time()
    installation.ensure()
    installation.healthy()
    note(name, verdicts, time.time() - ended_s, complaints)
    assert not complaints, "\n".join(complaints)


def looked_at(where: Installation, verdicts: list[Verdict]) -> list[str]:
    """Each command that is shown and changes nothing is typed while the fault lasts: it gives an answer, whatever that is."""
    lines = [line for verdict in verdicts for name, line in verdict.lines.items() if name != "metrics"]
    complaints = []
    for command in sorted({each for line in lines for each in line.commands if each.startswith(LOOKS)}):
        done, output = where.type(command)
        if done not in ANSWERS or "Traceback" in output:
            complaints.append(f"`{command}` ended with {done}\n{output}")
    return complaints


def goes_on(where: Installation, planted_s: float) -> list[str]:
    """What is no trouble: 15 s later records from after it are in all tables, and no screen tells of any."""
    while time.time() < planted_s + WITHIN_S and not where.is_through(planted_s):
        time.sleep(0.5)
    late = [] if where.is_through(planted_s) else [f"no records from after it in all tables within {WITHIN_S:.0f} s"]
    looked = {name: look() for name, look in where.readers().items()}
    # The metrics of a process that is frozen or gone are silent, and rightly so.
    told = [
        (name, line) for name, screen in looked.items() for line in where.troubles(screen) if line.kind != "process"
    ]
    shown = [f"{name} tells of {line}" for name, line in told]
    return [*late, *shown]


def watch(where: Installation, fault: Fault, begun_s: float, planted_s: float) -> list[Verdict]:
    """Until each screen has told all that is expected of it."""
    firsts: dict[tuple[int, str], Screen] = {}

    def told(screen: Screen) -> bool:
        wanted = [n for n, each in enumerate(fault.expected) if screen.name in each.screens]
        for number in wanted:
            if (number, screen.name) not in firsts and fault.expected[number].found_on(screen) is not None:
                firsts[number, screen.name] = screen
        return all((number, screen.name) in firsts for number in wanted)

    names = sorted({name for each in fault.expected for name in each.screens})
    watched = where.watched()
    watched.until(told, max(each.within_s for each in fault.expected), names)
    verdicts = []
    for number, each in enumerate(fault.expected):
        seen = {name: firsts[number, name] for name in each.screens if (number, name) in firsts}
        seen = {name: screen for name, screen in seen.items() if screen.at_s - begun_s <= each.within_s + 1}
        verdict = judged(each, seen, begun_s, planted_s)
        page = seen.get("page")
        if page is not None and calm(page.headline) and isinstance(each, Expected):
            verdict.complaints.append(f"the page's headline: {page.headline}")
        for name in each.screens:
            if name not in seen and watched.shown.get(name):
                last = watched.shown[name][-1]
                said = [f"{line}" for line in last.lines if line.state not in ("RUNNING", "IDLE")]
                verdict.complaints.append(f"  {name} said: {last.headline}; {said or last.text[-1500:]}")
        verdicts.append(verdict)
    return verdicts


def note(name: str, verdicts: list[Verdict], well_after_s: float, complaints: list[str]) -> None:
    """One line of what was measured, for the table of docs/operations.md."""
    told = {screen: round(s, 1) for verdict in verdicts[:1] for screen, s in verdict.told_s.items()}
    line: Line | None = next((line for verdict in verdicts[:1] for line in verdict.lines.values()), None)
    found = {"fault": name, "told_s": told, "well_after_s": round(well_after_s, 1), "complaints": complaints}
    found |= (
        {"state": line.state, "code": line.code, "reason": line.reason, "remedy": line.remedy}
        if line is not None
        else {}
    )
    MEASURED.parent.mkdir(exist_ok=True)
    with MEASURED.open("a", encoding="utf-8") as out:
        out.write(json.dumps(found, ensure_ascii=False) + "\n")
    print(json.dumps(found, ensure_ascii=False), flush=True)
