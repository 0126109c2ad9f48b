"""The checks of a migration review, asked of the broker, the catalog and the store as they are.

In: a loaded pipeline, opened. Out: evidence, check by check, for `framework.ops.readiness.model.look`. What decides is the run's
own code and that of the verbs (`plan`, `doctor`, `rollback`, `maintain`, `clean`), asked without changing anything; `doctor`
and the replay make scratch tables and a scratch topic, and remove them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.secrets import resolve
from framework.commit.events.event_types import CommitToTable, DataWritten, Health, StateChanged, Subject
from framework.commit.file_ages import DEFAULT_AGE_MS
from framework.commit.offsets import PartitionKey
from framework.config.values.objectives import Objective
from framework.config.values.owners import MEANING, duties
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument
from framework.errors import FloeError
from framework.ops.doctor import catalog as doctor_catalog
from framework.ops.doctor import kafka as doctor_kafka
from framework.ops.doctor.model import CheckState, DoctorFinding, ask
from framework.ops.preview.model import Action
from framework.ops.readiness.model import (
    Evidence,
    failed,
    not_checked,
    passed,
    warned,
)
from framework.ops.readiness.review import Review
from framework.plan.catalogs import used_catalogs
from framework.plan.diff.consent import change_text, missing_consent
from framework.recovery.rollback import decide_rollback
from framework.runtime.maintenance.orphans import clean
from framework.runtime.maintenance.tables import maintain

_TAIL = 5_000
_SNAPSHOTS = 10


# ---- what a run would do ---------------------------------------------------------------------------------------------


def plans(review: Review) -> Iterator[Evidence]:
    """The file is valid, or nobody would be here; what a run would be refused for, and changes that need consent."""
    found = review.preview
    yield passed(f"the file is valid; plan {found.hash}, {found.action.value}")
    for problem in found.problems:
        yield failed(f"a run would be refused: {problem.message} [{problem.code}]", problem.remedy)
    for change in missing_consent(found.changes or (), ()):
        yield warned(f"{change_text(change)}: {change.why} [{change.breaking}]", f"floe plan {review.named}")
    if found.changes is None:
        yield warned("the pipeline has run before, and what was deployed is not known", f"floe plan {review.named}")


def owners(review: Review) -> Iterator[Evidence]:
    """Each duty and its team; one that nobody owns is found out when nobody answers."""
    plan = review.plan
    for duty in duties(bool(plan.write.dead_letter_table or plan.write.dead_letter_topic)):
        team = plan.owners.of(duty)
        if team is None:
            line = f"write `owners: {{{duty.value}: TEAM}}` in {argument(review.pipeline.file)}, its template or its target"
            yield failed(f"{duty.value}: nobody owns {MEANING[duty]}", line)
        else:
            yield passed(f"{duty.value}: {team}")


def objectives(review: Review) -> Iterator[Evidence]:
    """What readers are promised, and whether it was kept over the last hour. A pipeline may promise nothing."""
    promised = review.plan.announce.objectives.wanted
    missing = ", ".join(each.value for each in Objective if each not in promised)
    if missing:
        yield passed(
            f"no objective is set for {missing}: `objectives:` in the file, its template or its target sets one"
        )
    if not promised:
        return
    pipelines = review.status.pipelines if review.control_topic_id is not None else ()
    found = next((each.budgets for each in pipelines if each.pipeline == review.plan.pipeline), ())
    if not found:
        yield passed(f"{', '.join(promised)}: nothing is measured before the first run that has these objectives")
    for budget in found:
        if budget.is_broken:
            yield failed(f"{budget.text}: missed over the last hour", f"floe status {review.in_control}")
        else:
            yield passed(budget.text)


def schemas(review: Review) -> Iterator[Evidence]:
    """What becomes of each table at the start."""
    for table in review.preview.tables or ():
        notes = f": {'; '.join(table.notes)}" if table.notes else ""
        columns = f" ({', '.join(table.columns)})" if table.columns else ""
        if table.action is Action.REFUSE:
            yield failed(f"{table.table} is refused{notes} [{table.code}]", f"floe explain {table.code}")
        elif table.other_types:
            text = f"{table.table}: {'; '.join(table.other_types)}: what does not fit becomes a dead letter"
            yield warned(text, "declare the column's type under `source.schema`, or alter the column")
        else:
            yield passed(f"{table.table}: {table.action.value}{columns}{notes}")


def grants(review: Review) -> Iterator[Evidence]:
    """What `floe doctor` finds of the pipeline's broker, catalogs and stores."""
    plan, target = review.plan, review.pipeline.target
    topics = (plan.announce.control_topic,)
    connection = doctor_kafka.Connection(plan.read.connection, review.kafka, target.prefix, topics, (plan,))
    found = ask("kafka", partial(doctor_kafka.examine, lambda: connection))
    yield from (_of_finding(each) for each in found if each.looked or each.needed)
    for name in sorted(used_catalogs(plan)):
        question = partial(doctor_catalog.examine, name, partial(resolve, target.catalogs[name]))
        yield from map(_of_finding, ask(f"catalog {name}", question))


def _of_finding(finding: DoctorFinding) -> Evidence:
    text = f"{finding.check}: {finding.message}"
    if finding.state is CheckState.ERROR:
        return failed(text, finding.remedy)
    if finding.state is CheckState.WARNING:
        return warned(text, finding.remedy)
    return passed(text) if finding.looked else not_checked(text)


# ---- tables ----------------------------------------------------------------------------------------------------------


def snapshots(review: Review) -> Iterator[Evidence]:
    """Each table has a history, and a roll-back to the snapshot before the newest one can be planned."""
    for table in review.tables:
        found = review.catalog.snapshots(table, limit=_SNAPSHOTS)
        if len(found) < 2:
            yield not_checked(f"{table} has {counted(len(found), 'snapshot')}: there is none to go back to")
            continue
        back = (
            f"floe rollback --table {argument(table)} --to {found[1].snapshot_id} --skip --dry-run {review.in_control}"
        )
        try:
            plan = decide_rollback(review.control_place, table, found[1].snapshot_id, False, False)
        except FloeError as error:
            yield warned(f"{table} cannot be rolled back by floe: {error.message} [{error.code}]", error.remedy)
            continue
        rows = sum(each.added_rows for each in plan.given_up)
        foreign = sum(not each.by_floe for each in plan.given_up)
        text = (
            f"{table}: a roll-back from snapshot {plan.head_id} to {plan.snapshot_id} would give up "
            f"{counted(len(plan.given_up), 'snapshot')} with {counted(rows, 'row')}"
        )
        yield warned(f"{text}, {foreign:,} of them by another writer", back) if foreign else passed(text)
    if not review.tables:
        yield not_checked("none of the pipeline's tables is there yet", f"floe run {review.named} --until-caught-up")


def upkeep(review: Review) -> Iterator[Evidence]:
    """Dry runs of `maintain` and `clean`: what they would take is nothing that waits, and what waits is there."""
    if review.control_topic_id is None or not review.tables:
        yield not_checked("there is no table that floe has filled", f"floe run {review.named} --until-caught-up")
        return
    topics = (review.plan.announce.control_topic,)
    pending = _pending(review)
    for table in review.tables:
        missing = review.catalog.missing_files(table, pending.get(table, ()))
        if missing:
            text = f"{table}: {counted(len(missing), 'waiting file')} not in the store, first {missing[0]}"
            yield failed(text, f"floe status {review.in_control} --verify")
        else:
            yield passed(f"{table}: {counted(len(pending.get(table, ())), 'announced file')} waiting, all in the store")
    for report in maintain(review.kafka, topics, review.catalog, review.tables, True, lambda text: None):
        command = f"floe maintain {argument(report.table)} {review.in_control} --dry-run"
        if report.skipped:
            yield warned(f"{report.table} is not maintained: {report.skipped}", command)
            continue
        yield passed(
            f"{report.table}: maintenance would expire {counted(report.expired, 'snapshot')} and remove "
            f"{counted(report.removed, 'file')} with them"
        )
    waiting = {path for paths in pending.values() for path in paths}
    for orphans in clean(review.kafka, topics, review.catalog, review.tables, DEFAULT_AGE_MS, False, lambda text: None):
        command = f"floe clean {argument(orphans.table)} {review.in_control}"
        taken = [file.location for file in orphans.orphans if file.location in waiting]
        if orphans.skipped:
            yield warned(f"{orphans.table} is not cleaned: {orphans.skipped}", command)
        elif taken:
            yield failed(f"{orphans.table}: {taken[0]} waits and counts as an orphan", command)
        else:
            yield passed(f"{orphans.table}: {counted(len(orphans.orphans), 'orphan file')}, none of them announced")


def _pending(review: Review) -> dict[str, tuple[str, ...]]:
    """By table the files that are announced and not in it: those of announcements at or above its recorded offset."""
    recorded: dict[str, int] = {}
    for table in review.tables:
        view = review.catalog.load_view(table, "main", review.control_topic_id or "")
        if view is not None:
            recorded[view.table_uuid] = view.progress.control_offset if view.progress is not None else 0
    reader = ControlReader(review.kafka, review.plan.announce.control_topic)
    found: dict[str, list[str]] = {}
    try:
        end = reader.end_offset()
        reader.seek(min(end, max(reader.start_offset(), min(recorded.values(), default=0))))
        for offset, event in reader.read_until(end):
            if isinstance(event, DataWritten) and offset >= recorded.get(event.table_uuid, end):
                found.setdefault(event.table, []).extend(event.paths)
    finally:
        reader.close()
    return {table: tuple(paths) for table, paths in found.items()}


def store_failures(review: Review) -> Iterator[Evidence]:
    """Whether a failure of catalog or store was seen lately, and got over; none can be made from here."""
    make_one = "take the store's write permission away for a minute while a test pipeline runs, and watch `floe top`"
    topic = review.plan.announce.control_topic
    if review.control_topic_id is None:
        yield not_checked("no run has written a control topic, so no failure was seen", make_one)
        return
    reader = ControlReader(review.kafka, topic)
    troubled: dict[str, StateChanged] = {}
    over: list[tuple[StateChanged, int]] = []
    try:
        end = reader.end_offset()
        reader.seek(max(reader.start_offset(), end - _TAIL))
        for _, event in reader.read_until(end):
            if isinstance(event, StateChanged) and event.subject is Subject.TABLE:
                if event.state in (Health.DEGRADED, Health.FAILED):
                    troubled.setdefault(event.name, event)
            elif isinstance(event, CommitToTable) and (trouble := troubled.pop(event.table, None)) is not None:
                over.append((trouble, event.timestamp_ms))
    finally:
        reader.close()
    for name, trouble in sorted(troubled.items()):
        yield warned(f"{name} is {trouble.state.value} and has not committed since: {trouble.reason}", trouble.remedy)
    for trouble, at_ms in over:
        seconds = max(0, at_ms - trouble.since_ms) // 1000
        yield passed(f"{trouble.name} was {trouble.state.value} and committed {seconds:,} s later: {trouble.reason}")
    if not troubled and not over:
        yield not_checked(f"no failure of a commit stands in the last {_TAIL:,} offsets of {topic}", make_one)


# ---- the way there, and back -----------------------------------------------------------------------------------------


def positions(review: Review, old_group: str | None) -> Iterator[Evidence]:
    """Exact offsets: where this pipeline would begin, and where the writer before it stands."""
    start = review.preview.start
    if start is None:
        yield failed("it cannot be said where a run would begin to read", f"floe plan {review.named}")
        return
    for each in start.partitions:
        yield passed(f"{each.topic}-{each.partition}: a run begins at {each.start} of {each.end} (by {each.by})")
    if old_group is None:
        yield not_checked("where the writer before this one stands", "name its consumer group with --old-group")
        return
    old = _old_offsets(review, old_group)
    if not old:
        yield failed(f"the group {old_group} has no offset of these topics", "correct --old-group")
    begins = {(each.topic, each.partition): each.start for each in start.partitions}
    for key, offset in sorted(old.items()):
        ours = begins.get(key)
        place = f"{key[0]}-{key[1]}"
        if ours is None:
            yield failed(f"{place}: {old_group} reads it, and this pipeline does not", "correct source.kafka.topics")
        elif ours == offset:
            yield passed(f"{place}: {old_group} stands at {offset}, where this pipeline begins")
        else:
            what = (
                f"{ours - offset:,} offsets would be lost"
                if ours > offset
                else f"{offset - ours:,} would be read twice"
            )
            yield warned(
                f"{place}: {old_group} stands at {offset}, this pipeline begins at {ours}: {what}", _set(review, old)
            )


def _old_offsets(review: Review, group: str) -> dict[PartitionKey, int]:
    topics = {topic for topic, _ in review.facts}
    return {key: found.offset for key, found in review.admin.group_offsets(group).items() if key[0] in topics}


def _set(review: Review, offsets: Mapping[PartitionKey, int]) -> str:
    said = " ".join(f"{argument(topic)}:{partition}={offset}" for (topic, partition), offset in sorted(offsets.items()))
    return f"floe offsets set {review.named} {said}"


def cut_over(review: Review, old_group: str | None) -> tuple[str, ...]:
    """The steps to this pipeline, with the offsets as they are now."""
    old = _old_offsets(review, old_group) if old_group is not None else {}
    steps = [
        f"Stop the writer before this one{f' (group {old_group})' if old_group else ''}, and wait until its commits are done."
    ]
    steps.append(
        f"Look again, for the offsets below are those of now: floe readiness {review.named}"
        + (f" --old-group {old_group}" if old_group else "")
    )
    steps += [f"It stands at {topic}-{partition}@{offset}." for (topic, partition), offset in sorted(old.items())]
    if old and review.control_topic_id is None:
        topic = review.plan.announce.control_topic
        steps.append(f"Make the control topic {topic} first; `floe offsets set` says with which command.")
    if old:
        steps.append(f"Let this pipeline begin there: {_set(review, old)}")
    start = review.preview.start
    for each in start.partitions if start is not None and not old else ():
        steps.append(f"It begins at {each.topic}-{each.partition}@{each.start} (by {each.by}).")
    steps.append(f"Start it: floe run {review.named}")
    steps.append(f"Watch it: floe status {review.in_control}")
    return tuple(steps)


def way_back(review: Review) -> tuple[str, ...]:
    """The steps away from this pipeline, to the snapshots that the tables have now."""
    steps = [
        f"Drain it, so that all that is announced is committed: floe stop {review.plan.pipeline} {review.in_control}"
    ]
    for table in review.tables:
        head = next(iter(review.catalog.snapshots(table, limit=1)), None)
        if head is not None:
            command = (
                f"floe rollback --table {argument(table)} --to {argument(head.snapshot_id)} --skip {review.in_control}"
            )
            steps.append(f"To give up what comes from now on, snapshot {head.snapshot_id} of {table}: {command}")
    start = review.preview.start
    for each in start.partitions if start is not None else ():
        steps.append(f"The writer before this one goes on at {each.topic}-{each.partition}@{each.start}.")
    steps.append(f"The offsets that this pipeline has reached by then: floe offsets show {review.named}")
    return tuple(steps)
