"""Keeps single tables healthy: rewrites small files, expires snapshots and removes the files that nobody needs any more.

In: a table's name, its policy, what announcements name, and whether anything may be changed. Out: a report with
snapshots, files and bytes before and after. Keeps invariant 12 for every file that goes, and what
`framework.commit.maintenance` decides for snapshots. Killed at any moment it leaves at most files that the next round
finds as orphans.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from framework.adapters.iceberg.commits.expiry import ExpiryFacts
from framework.adapters.iceberg.files import path_key
from framework.adapters.iceberg.tables import IcebergTables, TablePlace
from framework.adapters.maintenance.tables import Compacted, Expired, MaintainedTable, TableCare
from framework.commit.file_ages import now_for_orphans_ms
from framework.commit.maintenance.expire import Expiry, Stay, decide_expiry
from framework.commit.maintenance.one_by_one import one_by_one
from framework.commit.maintenance.others import OtherMaintainer
from framework.config.names.table_names import catalog_of, name_matches
from framework.config.spec import TablesSpec
from framework.config.values.maintenance import MaintenanceMode, MaintenancePolicy
from framework.diagnose.counted import counted
from framework.diagnose.suggest import listed
from framework.errors import FloeError
from framework.plan.deployed_policies import branch_of, policy_of, published_tables
from framework.runtime.maintenance.orphans import Announced, look, why_not

Say = Callable[[str], None]
# So many rounds of expiry follow one another by hand; the coordinator has one in each of its turns.
MOST_ROUNDS = 1_000
MAIN = "main"


@dataclass(frozen=True)
class Size:
    """`files` and `bytes` are of everything below the table's location."""

    snapshots: int
    files: int
    bytes: int


@dataclass(frozen=True)
class MaintenanceReport:
    """`skipped` says why nothing was done, "" if it was. `manifests` are those of the head before and after. `expired`
    counts snapshots; `kept` says, for those that age and number alone would let go, why they stay; `removed` and
    `orphans` count files. In a dry run all of this is what would be."""

    table: str
    before: Size = Size(0, 0, 0)
    after: Size = Size(0, 0, 0)
    rewritten: Compacted = field(default_factory=Compacted)
    manifests: tuple[int, int] = (0, 0)
    expired: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    removed: int = 0
    orphans: int = 0
    skipped: str = ""


def maintain(
    kafka: dict[str, str],
    control_topics: Sequence[str],
    catalog: IcebergTables,
    patterns: Sequence[str],
    dry_run: bool,
    say: Say,
    files: Mapping[str, TablesSpec] | None = None,
    goes_on: Callable[[], bool] = lambda: True,
    archive: str = "",
) -> list[MaintenanceReport]:
    """Maintain every table that floe fills and that a pattern names, by the policies that its pipelines published.

    Args:
        files: only what these pipelines fill, by what they say, whatever runs published before.
        goes_on: asked between tables and between groups of files; False ends it, and what is done is done.
        archive: the table that keeps the control log, "" for none: no plan names it.

    Raises:
        FloeError: neither broker nor any catalog answers; nothing was done. A single table or catalog that does not is
            skipped.
    """
    announced = Announced(kafka, control_topics)
    try:
        announced.read_on()
        reported = {
            name: spec for name, plan in announced.plans.items() if (spec := published_tables(plan)) is not None
        }
        reported |= files or {}
        places, silent = catalog.places()
        if silent and not places:
            raise next(iter(silent.values()))
        wanted = [
            name
            for name, place in places.items()
            if place.control_topic_ids and any(name_matches(name, pattern) for pattern in patterns)
        ]
        care = TableCare(catalog)
        reports = [MaintenanceReport(name, skipped=error.message) for name, error in silent.items()]

        def look_after(numbered: tuple[int, str]) -> MaintenanceReport | None:
            number, name = numbered
            table = care.look(name) if goes_on() else None
            if table is None or (files is not None and table.pipelines.isdisjoint(files)):
                return None
            say(f"{name} ({number} of {len(wanted)})")
            policy = MaintenancePolicy() if name == archive else policy_of(name, table.pipelines, reported)
            branch = branch_of(name, table.pipelines, reported)
            skipped = why_left_alone(table, name, places, branch) or _refused(table, policy)
            if skipped or policy is None:
                return MaintenanceReport(name, skipped=skipped)
            unclear = why_not(name, places, announced.control_topic_ids)
            return maintain_table(name, care, policy, announced, places, unclear, dry_run, say, goes_on, branch)

        def skip(numbered: tuple[int, str], error: FloeError) -> MaintenanceReport | None:
            return MaintenanceReport(numbered[1], skipped=error.message)

        # One table that cannot be loaded keeps nobody from the others.
        found = one_by_one(enumerate(wanted, start=1), look_after, skip)
        return [*reports, *(each for each in found if each is not None)]
    finally:
        announced.close()


def _refused(table: MaintainedTable, policy: MaintenancePolicy | None) -> str:
    """A person who names a table means it, whoever created it; but nothing is done that its files might not allow."""
    if policy is None:
        names = listed(sorted(table.pipelines), "and") or "floe"
        return (
            f"what {names} wants of it is not known: no run has published a plan in this control topic; run the "
            "pipeline once, or name its file: floe run FILE --until-caught-up"
        )
    return "its pipeline says `maintenance: {mode: never}`" if policy.mode is MaintenanceMode.NEVER else ""


def why_left_alone(table: MaintainedTable, name: str, places: Mapping[str, TablePlace], branch: str = MAIN) -> str:
    """Why nothing may be done to a table now whose pipelines write this branch; "" where it may."""
    if branch in table.behind:
        return "it was rolled back behind what floe committed; `floe rollback` settles that first"
    if not table.owns_files:
        return "it says `gc.enabled: false`: others may need its files"
    twin = next((other for other, at in places.items() if other != name and at.table_uuid == table.table_uuid), None)
    return f"table {twin} is registered with the same metadata, and needs the same files" if twin else ""


def describe_maintainer(other: OtherMaintainer) -> str:
    """The other maintainer of a table, and how floe takes over."""
    return (
        f"{other.name}, which rewrote them {other.rounds} times in the last days; "
        "`maintenance: {mode: always}` lets floe rewrite them too"
    )


def maintain_table(
    name: str,
    care: TableCare,
    policy: MaintenancePolicy,
    announced: Announced,
    places: Mapping[str, TablePlace],
    unclear: str,
    dry_run: bool,
    say: Say,
    goes_on: Callable[[], bool] = lambda: True,
    branch: str = MAIN,
) -> MaintenanceReport:
    """One table, everything that its policy says; files and manifests are rewritten on one branch.

    Args:
        unclear: why its orphans cannot be distinguished from files in use; "" when they can.
        goes_on: asked between groups of files and rounds of expiry.

    Raises:
        FloeError: catalog or store do not answer; what was done before is done.
    """
    catalog = care.tables
    stored = {file.key: file for file in catalog.stored_files(name, places[name].roots)}
    earlier = care.look(name)
    rewritten = care.compact(name, policy.compaction, dry_run, goes_on=goes_on, branch=branch)
    manifests = care.merge_manifests(name, policy.manifests, dry_run, branch)
    if earlier is None or rewritten is None or manifests is None:
        return MaintenanceReport(name, skipped="it was dropped in the meantime")
    gone: set[str] = set()
    expired, removed, kept, left = 0, 0, {}, 0
    for _ in range(1 if dry_run else MOST_ROUNDS):
        done = expire_once(name, care, policy, places, dry_run)
        if done is None:
            return MaintenanceReport(name, skipped="it was dropped in the meantime")
        expired, left = expired + len(done.expiry.expired), done.snapshots_left
        gone |= {path_key(path) for path in done.paths}
        kept = _reasons(done)
        if not done.expiry.expired or dry_run:
            break
        say(f"{name}: {counted(expired, 'snapshot')} expired")
        removed += care.remove(name, done.paths)
        if done.is_last or not goes_on():
            break
    orphans: tuple[str, ...] = ()
    if policy.orphans.enabled and not unclear and goes_on():
        found = look(name, catalog, places[name], announced, policy.orphans.older_than_ms, not dry_run, say)
        orphans = tuple(file.key for file in found.orphans)
    table = care.look(name)
    before = Size(earlier.snapshots, len(stored), sum(file.size for file in stored.values()))
    if dry_run:
        stays = [file for key, file in stored.items() if key not in gone and key not in set(orphans)]
        removed = len(gone & stored.keys())
        left += bool(orphans)  # see `look`
    else:
        stays = catalog.stored_files(name, places[name].roots)
    after = Size(table.snapshots if table and not dry_run else left, len(stays), sum(file.size for file in stays))
    return MaintenanceReport(name, before, after, rewritten, manifests, expired, kept, removed, len(orphans))


def expire_once(
    name: str, care: TableCare, policy: MaintenancePolicy, places: Mapping[str, TablePlace], dry_run: bool
) -> Expired | None:
    """One commit's worth of snapshots; their files are still there. A dry run looks at all of them at once, and goes by
    this machine's clock alone, since it writes nothing.

    Args:
        places: all tables as they were looked at, perhaps an hour ago.

    Raises:
        FloeError: the catalog does not answer, or refuses.
    """
    now_ms = int(time.time() * 1000)

    def decide(facts: ExpiryFacts) -> Expiry:
        asked = partial(decide_expiry, facts.snapshots, facts.references, facts.topic_ids)
        if dry_run:
            return asked(policy.expire, now_ms, most=2**31)
        found = asked(policy.expire, now_ms)
        if not found.expired:
            return found
        if _is_registered_since(name, care.tables, places):
            return asked(replace(policy.expire, enabled=False), now_ms)
        # A machine that is ahead would let go what readers opened a minute ago: the store's clock is asked as well.
        reported_ms = now_for_orphans_ms(now_ms, care.tables.store_now_ms(name))
        return asked(
            policy.expire if reported_ms is not None else replace(policy.expire, enabled=False), reported_ms or now_ms
        )

    return care.expire(name, decide, dry_run)


def _is_registered_since(name: str, catalog: IcebergTables, places: Mapping[str, TablePlace]) -> bool:
    """Whether another table with the same metadata has a name that was not there when the others were looked at. One
    that cannot be loaded keeps nobody from the others."""
    own = catalog.place(name)
    new = one_by_one(
        (other for other in catalog.list_tables(catalogs=(catalog_of(name),)) if other not in places and other != name),
        catalog.place,
        lambda other, error: None,
    )
    return own is None or any(each is not None and each.table_uuid == own.table_uuid for each in new)


def _reasons(done: Expired) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for stay in done.expiry.kept.values():
        if stay not in (Stay.YOUNG, Stay.NEXT):
            reasons[stay.value] = reasons.get(stay.value, 0) + 1
    return dict(sorted(reasons.items()))
