"""The alerts: what an on-call engineer is notified of, from the metrics alone, and where the runbook says what to do.

In: the metrics' definitions. Out: rules as Prometheus reads them, each with an example that makes it fire. Every
expression is made of names from `framework.metrics.definitions`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from framework.commit.risks import TAKEOVERS_MIN, TAKEOVERS_MOST, USED_MOST
from framework.config.values.owners import Duty
from framework.metrics import definitions as d

RUNBOOK = "docs/operations.md"
# A table's name as one word of a shell command, whatever is in it, in Prometheus' words.
_ARGUMENT = """'{{ reReplaceAll "'" "'\\\\''" $labels.table }}'"""


class AlertSeverity(str, Enum):
    PAGE = "page"  # somebody must act now: data waits, and does not get on by itself
    TICKET = "ticket"  # somebody must act this day


@dataclass(frozen=True)
class Series:
    """A series of an example: its name with labels, and its values as promtool writes them, one a minute."""

    name: str
    values: str


@dataclass(frozen=True)
class Alert:
    """One rule. `example` makes it fire `fires_at_min` minutes after its beginning, with `labels` among its labels; none
    of `quiet` ever makes it fire, though something is bad."""

    name: str
    severity: AlertSeverity
    expression: str
    for_min: int
    summary: str
    description: str
    example: tuple[Series, ...]
    fires_at_min: int
    labels: tuple[tuple[str, str], ...] = ()
    quiet: tuple[tuple[Series, ...], ...] = ()

    @property
    def duty(self) -> Duty | None:
        """Whose owner it is for; None where it is about no pipeline."""
        if "pipeline" not in dict(self.labels):
            return None
        return Duty.DEAD_LETTERS if d.DEAD_LETTERS.name in self.metrics else Duty.PIPELINE

    @property
    def anchor(self) -> str:
        """Of its section in the runbook."""
        return self.name.lower()

    @property
    def metrics(self) -> frozenset[str]:
        """The names in its expression; a histogram's without their endings."""
        found = re.findall(r"\bfloe_\w+", self.expression)
        return frozenset(re.sub(r"_(bucket|sum|count)$", "", name) for name in found)


def _pipeline(state: str) -> str:
    return f'{d.PIPELINE_STATE.name}{{state="{state}"}} == 1'


def _table(state: str) -> str:
    return f'{d.TABLE_STATE.name}{{state="{state}"}} == 1'


def _burns(times: float, *windows: str) -> str:
    """The budget is spent so many times faster than the objective allows, over each of the windows: the short one ends the
    alert soon after the cause is gone."""
    by = "by (pipeline, objective)"
    allowed = f"(1 - max {by} ({d.OBJECTIVE_TARGET.name}))"
    return " and ".join(
        f"sum {by} (increase({d.OBJECTIVE_BAD.name}[{window}])) / "
        f"sum {by} (increase({d.OBJECTIVE_COUNTED.name}[{window}])) > {times} * {allowed}"
        for window in windows
    )


# Bad records, or stale seconds, from which on somebody is woken: one bad record in a quiet hour is far more than its share of
# that hour, and next to nothing of a month's budget. The slow alert reports it by day.
_WAKES_FROM = 10


def _objective(bad: str, counted: str = "0+1000x60") -> tuple[Series, ...]:
    """Of 1,000 records a minute so many are bad, where one may be."""
    of = '{pipeline="orders",objective="complete"}'
    return (
        Series(f"{d.OBJECTIVE_TARGET.name}{of}", "0.999x60"),
        Series(f"{d.OBJECTIVE_BAD.name}{of}", bad),
        Series(f"{d.OBJECTIVE_COUNTED.name}{of}", counted),
    )


def _state_of_pipeline(state: str) -> tuple[Series, ...]:
    return (Series(f'{d.PIPELINE_STATE.name}{{pipeline="orders",state="{state}"}}', "0 1x60"),)


def _state_of_table(state: str) -> tuple[Series, ...]:
    return (Series(f'{d.TABLE_STATE.name}{{control_topic="control",table="shop.orders",state="{state}"}}', "0 1x60"),)


_PAGE, _TICKET = AlertSeverity.PAGE, AlertSeverity.TICKET
_OF_PIPELINE = (("pipeline", "orders"),)
_OF_OBJECTIVE = (("pipeline", "orders"), ("objective", "complete"))
_OF_TABLE = (("table", "shop.orders"),)
_OF_TOPIC = (("control_topic", "control"),)

ALERTS: tuple[Alert, ...] = (
    Alert(
        "FloeProcessDown", _PAGE, 'up{job="floe"} == 0', 2,
        "A driver or a coordinator of floe does not answer",
        "{{ $labels.instance }} cannot be scraped: the process ended, or its machine is gone.",
        (Series('up{job="floe",instance="driver:9464"}', "1 0x60"),), 5, (("instance", "driver:9464"),),
    ),
    Alert(
        "FloePipelineStalled", _PAGE, f"{d.STALLED.name} == 1", 0,
        "Pipeline {{ $labels.pipeline }} makes no progress",
        "It stands still in phase {{ $labels.phase }}.",
        (Series(f'{d.STALLED.name}{{pipeline="orders",phase="writing"}}', "0 1x60"),), 2, _OF_PIPELINE,
    ),
    Alert(
        "FloePipelineFailed", _PAGE, _pipeline("FAILED"), 0,
        "Pipeline {{ $labels.pipeline }} has given up",
        "Its run ended with an error. `floe status` says which.",
        _state_of_pipeline("FAILED"), 2, _OF_PIPELINE,
    ),
    Alert(
        "FloePipelineBlocked", _PAGE, _pipeline("BLOCKED"), 2,
        "Pipeline {{ $labels.pipeline }} reads nothing until somebody repairs something",
        "`floe status` says what, and the command for it.",
        _state_of_pipeline("BLOCKED"), 5, _OF_PIPELINE,
    ),
    Alert(
        "FloePipelineDegraded", _TICKET, _pipeline("DEGRADED"), 10,
        "Batches of pipeline {{ $labels.pipeline }} fail and are tried again",
        "It goes on by itself once the cause is gone.",
        _state_of_pipeline("DEGRADED"), 15, _OF_PIPELINE,
    ),
    Alert(
        "FloeLagGrows", _TICKET,
        f"{d.LAG_SECONDS.name} > 300 and deriv({d.LAG_RECORDS.name}[5m]) > 0", 2,
        "Pipeline {{ $labels.pipeline }} falls behind",
        "The oldest record has waited for {{ $value | humanizeDuration }}, and more come than are read.",
        (
            Series(f'{d.LAG_SECONDS.name}{{pipeline="orders"}}', "0+60x60"),
            Series(f'{d.LAG_RECORDS.name}{{pipeline="orders"}}', "0+100x60"),
        ), 10, _OF_PIPELINE,
    ),
    Alert(
        "FloeFeedSilent", _TICKET, f"{d.SILENT.name} == 1", 0,
        "No record comes to pipeline {{ $labels.pipeline }} any more",
        "Its file says under `source.silent_after` how long it may be without one.",
        (Series(f'{d.SILENT.name}{{pipeline="orders"}}', "0 1x60"),), 2, _OF_PIPELINE,
    ),
    Alert(
        "FloeRetentionNear", _PAGE, f"{d.RETENTION_USED.name} > {USED_MOST}", 5,
        "Retention is about to remove records that pipeline {{ $labels.pipeline }} has not read",
        "{{ $value | humanizePercentage }} of what a partition still holds is not announced.",
        (Series(f'{d.RETENTION_USED.name}{{pipeline="orders"}}', "0.2 0.9x60"),), 10, _OF_PIPELINE,
    ),
    Alert(
        "FloeDeadLetterFlood", _TICKET,
        f'sum by (pipeline) (rate({d.RECORDS.name}{{outcome="dead_lettered"}}[2m])) > '
        f"0.05 * sum by (pipeline) (rate({d.RECORDS.name}[2m]))", 1,
        "More than one in twenty records of pipeline {{ $labels.pipeline }} is a dead letter",
        "`floe_dead_letters_total` says at which stage and with which code.",
        (
            Series(f'{d.RECORDS.name}{{pipeline="orders",outcome="dead_lettered"}}', "0x10 0+600x60"),
            Series(f'{d.RECORDS.name}{{pipeline="orders",outcome="written"}}', "0+600x70"),
        ), 40, _OF_PIPELINE,
    ),
    Alert(
        "FloeBudgetBurnsFast", _PAGE,
        f'{_burns(14.4, "1h", "5m")} and sum by (pipeline, objective) '
        f"(increase({d.OBJECTIVE_BAD.name}[1h])) >= {_WAKES_FROM}", 0,
        "Pipeline {{ $labels.pipeline }} spends its error budget for {{ $labels.objective }} within two days",
        "{{ $value | humanizePercentage }} missed the objective over the last hour: 2 % of the budget of 30 days an hour.",
        _objective("0+20x60"), 40, _OF_OBJECTIVE,
        quiet=(_objective("0+10x60"), _objective("0x37 3x30", "0+1x60")),
    ),
    Alert(
        "FloeBudgetBurnsSlowly", _TICKET, _burns(6, "6h", "30m"), 0,
        "Pipeline {{ $labels.pipeline }} spends its error budget for {{ $labels.objective }} within five days",
        "{{ $value | humanizePercentage }} missed the objective over the last six hours: 5 % of the budget of 30 days.",
        _objective("0+10x60"), 40, _OF_OBJECTIVE,
        quiet=(_objective("0+5x60"),),
    ),
    Alert(
        "FloeTableBlocked", _PAGE, _table("BLOCKED"), 2,
        "Table {{ $labels.table }} takes no commit until somebody repairs it",
        "What is announced for it waits. `floe status` says why, and the command for it.",
        _state_of_table("BLOCKED"), 5, _OF_TABLE,
    ),
    Alert(
        "FloeTableFailed", _PAGE, _table("FAILED"), 0,
        "Commits of table {{ $labels.table }} have failed ten times in a row",
        "floe goes on trying. What is announced for it waits.",
        _state_of_table("FAILED"), 2, _OF_TABLE,
    ),
    Alert(
        "FloeTableDegraded", _TICKET, _table("DEGRADED"), 10,
        "Commits of table {{ $labels.table }} fail and are tried again",
        "It goes on by itself once the cause is gone.",
        _state_of_table("DEGRADED"), 15, _OF_TABLE,
    ),
    Alert(
        "FloeTableNeedsMaintenance", _TICKET, f"{d.NEEDS.name} > 0", 60,
        "Table {{ $labels.table }} decays: {{ $labels.reason }}",
        f"Its readers and its commits pay for that. `floe maintain {_ARGUMENT}` repairs it.",
        (
            Series(
                f'{d.NEEDS.name}{{control_topic="control",table="shop.orders",reason="small_files"}}', "0 1x120"
            ),
        ), 90, _OF_TABLE,
    ),
    Alert(
        "FloeCommitStalled", _PAGE, _table("STALLED"), 0,
        "A commit of table {{ $labels.table }} is under way and makes no progress",
        "The catalog or the store has not answered for `monitoring.stalled_after_ms`.",
        _state_of_table("STALLED"), 2, _OF_TABLE,
    ),
    Alert(
        "FloeCatalogRequestHangs", _PAGE, f"time() - {d.OLDEST_REQUEST.name} > 600", 0,
        "Catalog {{ $labels.catalog }} does not answer a request",
        "The oldest request has been under way for {{ $value | humanizeDuration }}.",
        (Series(f'{d.OLDEST_REQUEST.name}{{catalog="default"}}', "0x60"),), 15, (("catalog", "default"),),
    ),
    Alert(
        "FloeNotVisible", _PAGE, f"time() - {d.OLDEST.name} > 1800", 5,
        "Records for table {{ $labels.table }} are announced and not visible",
        "The oldest announcement has waited for {{ $value | humanizeDuration }}.",
        (Series(f'{d.OLDEST.name}{{control_topic="control",table="shop.orders"}}', "0x60"),), 40, _OF_TABLE,
    ),
    Alert(
        "FloeCommitOutcomeUnknown", _TICKET, f'increase({d.COMMITS.name}{{outcome="unknown"}}[30m]) > 0', 0,
        "The outcome of a commit to catalog {{ $labels.catalog }} could not be found out",
        "floe reads the table back before it does anything else; nothing is lost or repeated.",
        (Series(f'{d.COMMITS.name}{{catalog="default",outcome="unknown"}}', "0 0 1x60"),), 5, (("catalog", "default"),),
    ),
    Alert(
        "FloeNobodyCoordinates", _PAGE, f"sum by (control_topic) ({d.OWNER.name}) == 0", 3,
        "Nobody commits what is announced in {{ $labels.control_topic }}",
        "Drivers and coordinators are there, and none owns the control topic.",
        (Series(f'{d.OWNER.name}{{control_topic="control"}}', "1 0x60"),), 10, _OF_TOPIC,
    ),
    Alert(
        "FloeCoordinatorFlaps", _TICKET,
        f"max by (control_topic) (max_over_time({d.RECENT_TAKEOVERS.name}[2m])) > {TAKEOVERS_MOST}", 0,
        "Who coordinates {{ $labels.control_topic }} changes again and again",
        f"{{{{ $value | humanize }}}} takeovers in {TAKEOVERS_MIN} minutes: each reads the log again before it commits.",
        (Series(f'{d.RECENT_TAKEOVERS.name}{{control_topic="control"}}', "0+1x4 _ 4x60"),), 15, _OF_TOPIC,
    ),
    Alert(
        "FloeBrokerSilent", _PAGE, f'{d.SERVICE_UP.name}{{service="broker"}} == 0', 2,
        "A driver or coordinator reaches no broker",
        "{{ $labels.instance }} asked in vain. Nothing is announced meanwhile.",
        (Series(f'{d.SERVICE_UP.name}{{service="broker",instance="driver:9464"}}', "1 0x60"),), 5,
        (("instance", "driver:9464"),),
    ),
    Alert(
        "FloeCatalogSilent", _PAGE, f'{d.SERVICE_UP.name}{{service="catalog"}} == 0', 2,
        "A driver or coordinator reaches a catalog no longer",
        "{{ $labels.instance }} asked in vain. Batches are announced, and their commits wait.",
        (Series(f'{d.SERVICE_UP.name}{{service="catalog",instance="driver:9464"}}', "1 0x60"),), 5,
        (("instance", "driver:9464"),),
    ),
    Alert(
        "FloeRegistrySilent", _PAGE, f'increase({d.RETRIES.name}{{service="registry"}}[10m]) > 2', 0,
        "Batches fail because the schema registry does not answer",
        "Nothing is announced meanwhile, and no record becomes a dead letter.",
        (Series(f'{d.RETRIES.name}{{service="registry",instance="driver:9464"}}', "0 0+1x60"),), 10,
        (("service", "registry"),),
    ),
    Alert(
        "FloeStoreRefuses", _PAGE, f'increase({d.RETRIES.name}{{service="store"}}[10m]) > 2', 0,
        "The object store does not take files",
        "It is full, away, or refuses these credentials. Batches or commits are tried again.",
        (Series(f'{d.RETRIES.name}{{service="store",instance="driver:9464"}}', "0 0+1x60"),), 10,
        (("service", "store"),),
    ),
)  # fmt: skip
