"""What others do to floe's tables and topics: other engines, people with a catalog's client, retention.

In: a `World` and the act's own numbers. Out: new metadata, files removed by others as Iceberg's own procedures remove
them, topics made anew. The oracle learns what a person gives up with it.
"""

from __future__ import annotations

from dataclasses import replace

from framework.commit.recovery.settle_offsets import OffsetsOrigin
from tests.simulator import verbs
from tests.simulator.catalog import MAIN, Asserted, Metadata, Ref, Refused, Update, all_reach, is_moved, made_by_topic
from tests.simulator.picks import Picks
from tests.simulator.ports import DAY_MS, HOUR_MS, MINUTE_MS, Log, Topic
from tests.simulator.world import PIPELINES, World, at_work


def changed(world: World, table: str, update: Update) -> bool:
    """One commit of another engine."""
    with at_work(world, world.machines["foreign"]):
        try:
            world.lake.apply(
                table, Asserted(), replace(update, wall_ms=world.lake.machine.wall_ms), None, by_floe=False
            )
        except Refused as error:
            said = f"others: {table}: refused, {error}"
            world.say(lambda: said)
            return False
    return True


def some_table(world: World, picks: Picks) -> tuple[str, Metadata]:
    name = picks.of(world.main_names())
    return name, world.catalog.tables[name]


# ---- references


def tag(world: World, picks: Picks) -> None:
    name, metadata = some_table(world, picks)
    if not metadata.snapshots:
        return
    number, label = picks.of(sorted(metadata.snapshots)), f"tag{picks.below(3)}"
    truth = world.oracle.truth(metadata.uuid)
    if label in metadata.refs or not changed(world, name, Update(set_refs={label: Ref(number, False)})):
        return
    truth.tags[label] = metadata.snapshots[number]
    world.say(lambda: f"others: tag {label} of {name} on snapshot {number}")


def untag(world: World, picks: Picks) -> None:
    name, metadata = some_table(world, picks)
    labels = sorted(label for label, ref in metadata.refs.items() if label != MAIN)
    lost = sorted(world.oracle.truth(metadata.uuid).tags.keys() - metadata.refs.keys())
    if not labels and not lost:
        return
    label = picks.of([*labels, *lost])
    changed(world, name, Update(remove_refs=(label,)))
    world.oracle.truth(metadata.uuid).tags.pop(label, None)
    world.catalog.versions += 1
    world.say(lambda: f"others: {label} of {name} is removed")


def branch(world: World, picks: Picks) -> None:
    name, metadata = some_table(world, picks)
    if not metadata.snapshots or "side" in metadata.refs:
        return
    number = picks.of(sorted(metadata.snapshots))
    fewest = picks.of((None, 1, 3))
    if changed(world, name, Update(set_refs={"side": Ref(number, True, fewest)})):
        world.say(lambda: f"others: branch side of {name} on snapshot {number}")


# ---- commits


def other_commit(world: World, picks: Picks) -> None:
    """An empty commit, or a compaction by another engine."""
    name, metadata = some_table(world, picks)
    head = metadata.head
    if head is None:
        return
    removed: dict[str, int] = {}
    added: dict[str, int] = {}
    with at_work(world, world.machines["foreign"]):
        if picks.below(2) and len(head.live) > 1:
            old = sorted(head.live)[: 2 + picks.below(2)]
            removed = {path: world.rows[path] for path in old}
            path = world.store.write(metadata.location, "others.parquet")
            world.rows[path] = 0
            for rows in removed.values():
                world.rows[path] |= rows
            added = {path: world.rows[path]}
        made = world.lake.new_snapshot(metadata, head, added, removed, "replace" if added else "append", {})
    if changed(world, name, Update(made)):
        world.say(lambda: f"others: snapshot {made.snapshot_id} of {name}, {len(removed)} files rewritten")


def delete_rows(world: World, picks: Picks) -> None:
    """A file's rows are deleted by another engine: given up by name."""
    name, metadata = some_table(world, picks)
    head = metadata.head
    if head is None or not head.live or world.oracle.truth(metadata.uuid).unsettled:
        return
    path = picks.of(sorted(head.live))
    with at_work(world, world.machines["foreign"]):
        made = world.lake.new_snapshot(metadata, head, {}, {path: world.rows[path]}, "delete", {})
    if changed(world, name, Update(made)):
        truth = world.oracle.truth(metadata.uuid)
        truth.given_up |= head.rows & ~made.rows
        truth.deleted |= head.rows & ~made.rows
        world.removed_by_others.append((name, path))
        world.say(lambda: f"others: {path} is deleted from {name}")


def delete_replayed(world: World, pipeline: str) -> None:
    """The rows that replays of a pipeline have added are deleted by another engine, so that they are read again: from
    whatever file holds them by now, and what else it holds stays."""
    replayed = 0
    for path, rows in world.rows.items():
        replayed |= rows if f"-{pipeline}.replay." in path else 0
    for name in PIPELINES[pipeline][0]:
        metadata = world.metadata_of(name)
        head = metadata.head
        files = {} if head is None else {path: world.rows[path] for path in head.live if world.rows[path] & replayed}
        if head is None or not files:
            continue
        kept = 0
        for rows in files.values():
            kept |= rows & ~replayed
        with at_work(world, world.machines["foreign"]):
            added: dict[str, int] = {}
            if kept:
                path = world.store.write(metadata.location, "others.parquet")
                added[path] = world.rows[path] = kept
            made = world.lake.new_snapshot(metadata, head, added, files, "overwrite" if kept else "delete", {})
        if changed(world, name, Update(made)):
            truth = world.oracle.truth(metadata.uuid)
            truth.given_up |= head.rows & ~made.rows
            truth.deleted |= head.rows & ~made.rows
            world.say(lambda: f"others: rows of {sorted(files)} are deleted from {name}")  # noqa: B023


def add_again(world: World, picks: Picks) -> None:
    """A file that was deleted is added again. One that no snapshot reaches any more may go at any time, as Iceberg says."""
    name, metadata = some_table(world, picks)
    head, truth = metadata.head, world.oracle.truth(metadata.uuid)
    if head is None or truth.unsettled:
        return
    elsewhere = world.lacking(metadata) | truth.under_way
    reached = all_reach([metadata])
    found = [
        path
        for table, path in world.removed_by_others
        if table == name
        and world.store.holds(path)
        and path in reached
        and path not in head.live
        and not world.rows[path] & (head.rows | elsewhere)
    ]
    if not found:
        return
    path = picks.of(found)
    with at_work(world, world.machines["foreign"]):
        made = world.lake.new_snapshot(metadata, head, {path: world.rows[path]}, {}, "append", {})
    if changed(world, name, Update(made)):
        truth.given_up &= ~world.rows[path]
        world.say(lambda: f"others: {path} is added to {name} again")


def move_branch(world: World, picks: Picks) -> None:
    """Another engine moves the branch back; sideways it is settled at once by floe's verb, which is told to."""
    name, metadata = some_table(world, picks)
    head, truth = metadata.head, world.oracle.truth(metadata.uuid)
    if head is None or world.unrebased:
        return  # a table that is moved behind what a former control topic filled shows that to nobody
    line = [each.snapshot_id for each in metadata.line(head.snapshot_id)]
    held = world.held_heads(name)
    sideways = picks.below(4) == 0
    choices = sorted(metadata.snapshots) if sideways else line[1:5]
    choices = [number for number in choices if number not in held and number != head.snapshot_id]
    choices = [number for number in choices if _shows(metadata, number)]
    if not choices:
        return
    to = picks.of(choices)
    replay = picks.below(2) == 0
    coming = 0
    for path, rows in truth.waiting.items():
        coming |= rows if ".replay." in path else 0
    # What a replay has announced comes by itself, whatever the line holds that another engine moves to.
    if coming & metadata.snapshots[to].rows or (to not in line and (truth.unsettled or coming)):
        return
    if not truth.unsettled:
        truth.had, truth.had_heads = head.rows, [head.snapshot_id]
    truth.had_heads.append(head.snapshot_id)
    was, had_line = truth.unsettled, world.had_line(metadata)
    if not changed(world, name, Update(set_refs={MAIN: replace(metadata.refs[MAIN], snapshot_id=to)})):
        return
    # Where others deleted what is lost with the move, the rows are the same, and floe's verb may read them again.
    behind = any(world.is_behind(name, log) for log in world.logs)
    truth.unsettled = was or behind or metadata.snapshots[to].rows != head.rows
    world.say(lambda: f"others: main of {name} is moved to snapshot {to}")
    if to in line:
        return
    truth.either |= truth.given_up & metadata.snapshots[to].rows
    truth.given_up &= ~metadata.snapshots[to].rows
    done = verbs.settle_roll_back(world, name, to, replay, world.log_of_table(name, picks))
    if not any(world.is_behind(name, log) for log in world.logs):
        truth.unsettled = False
    elif not done:  # refused for now: the verb knows the line of floe's newest commit, not where others were in between
        for each in set(world.oracle.line(metadata.uuid, to)) - had_line:
            truth.either |= truth.added.get(each, 0)
    world.settled_sideways(name)


# ---- others' maintenance


def expire_by_others(world: World, picks: Picks) -> None:
    """Iceberg's expire_snapshots: what no reference holds goes, and then the files that no snapshot reaches."""
    name, metadata = some_table(world, picks)
    if name in {each for each, _ in world.shared_files()}:
        return
    kept = {
        each.snapshot_id
        for ref in metadata.refs.values()
        for each in metadata.line(ref.snapshot_id)[: 1 + picks.below(3)]
    }
    kept |= {ref.snapshot_id for ref in metadata.refs.values()}
    kept |= _known_by(metadata)
    # Where others let go what floe's verb has settled on another line, nothing is left that says so.
    kept |= {number for number, each in metadata.snapshots.items() if "floe.recovery" in each.summary}
    gone = sorted(metadata.snapshots.keys() - kept)
    gone = gone[: 1 + picks.below(8)]
    if not gone:
        return
    files = all_reach([metadata])
    if not changed(world, name, Update(remove_snapshots=gone)):
        return
    needed = all_reach(world.catalog.tables.values())
    for truth in world.oracle.truths.values():
        needed |= {path for snapshot in truth.tags.values() for path in snapshot.reach} | truth.waiting.keys()
    for path in sorted(files - needed):
        if world.store.holds(path):
            world.store.remove(path)
    world.say(lambda: f"others: snapshots {gone} of {name} expire")


def _shows(metadata: Metadata, snapshot_id: int) -> bool:
    """Whether floe can see what a line holds: it goes back behind the newest record of each log that filled the table."""
    oldest = metadata.line(snapshot_id)[-1].sequence
    return all(oldest <= made for made in made_by_topic(metadata).values())


def _known_by(metadata: Metadata) -> set[int]:
    """The snapshots by which floe sees that main was moved: those that were made since a record and stand on its line
    without it, and the one behind them. Where others let them expire it sees nothing, which docs/protocol.md names."""
    found: set[int] = set()
    for topic_id, made in made_by_topic(metadata).items():
        if is_moved(metadata, topic_id):
            line = metadata.line(metadata.refs[MAIN].snapshot_id)
            newer = [each.snapshot_id for each in line if each.sequence > made]
            found |= {each.snapshot_id for each in line[: len(newer) + 1]}
    return found


def orphans_by_others(world: World, picks: Picks) -> None:
    """Iceberg's remove_orphan_files, which knows nothing of announcements: files that no snapshot reaches, after three
    days."""
    name, metadata = some_table(world, picks)
    needed = all_reach(world.catalog.tables.values())
    for truth in world.oracle.truths.values():
        needed |= {path for snapshot in truth.tags.values() for path in snapshot.reach}
    gone = [
        file.key
        for file in world.store.files(metadata.location)
        if file.key not in needed and (file.modified_ms or 0) < world.time.now_ms - 3 * DAY_MS
    ]
    for path in gone:
        world.store.remove(path)
    late = world.lake.late  # who looked for the files just before cannot know of it
    late[:] = [each for each in late if not {file.path for file in each.effect.files} & set(gone)]
    if gone:
        world.say(lambda: f"others: {len(gone)} files of {name} are removed as orphans: {gone[:4]}")


# ---- the catalog


def register(world: World, picks: Picks) -> None:
    """Another table is registered with a table's metadata, or dropped again."""
    name, metadata = some_table(world, picks)
    clone = f"{name}_clone"
    if clone in world.catalog.tables:
        del world.catalog.tables[clone]
        world.oracle.clones.pop(clone, None)
        world.say(lambda: f"others: {clone} is dropped without its files")
    elif not world.lake.unloadable:
        world.catalog.tables[clone] = metadata
        world.oracle.clones[clone] = metadata.uuid, world.time.now_ms
        world.say(lambda: f"others: {clone} is registered with the metadata of {name}")
    world.catalog.versions += 1


def rename(world: World, picks: Picks) -> None:
    """A table is renamed, or gets its name back."""
    table = picks.of(("t", "u"))
    other = f"{table}_renamed"
    source, target = (table, other) if table in world.catalog.tables else (other, table)
    if target in world.catalog.tables or source not in world.catalog.tables:
        return
    world.catalog.tables[target] = world.catalog.tables.pop(source)
    world.catalog.versions += 1
    world.say(lambda: f"others: {source} is renamed to {target}")


def share_files(world: World, picks: Picks) -> None:
    """`gc.enabled` is set to false, or taken back."""
    name, metadata = some_table(world, picks)
    truth = world.oracle.truth(metadata.uuid)
    if metadata.properties.get("gc.enabled") == "false":
        changed(world, name, Update(remove_properties=("gc.enabled",)))
        truth.shared_since_ms = None
    else:
        changed(world, name, Update(properties={"gc.enabled": "false"}))
        truth.shared_since_ms = world.time.now_ms
    world.say(lambda: f"others: gc.enabled of {name} is {'true' if truth.shared_since_ms is None else 'false'}")


def keep_snapshots(world: World, picks: Picks) -> None:
    """`history.expire.min-snapshots-to-keep` is set, or taken back."""
    name, metadata = some_table(world, picks)
    truth, key = world.oracle.truth(metadata.uuid), "history.expire.min-snapshots-to-keep"
    fewest = picks.of((2, 4, 8))
    if truth.fewest_since_ms is not None:
        changed(world, name, Update(remove_properties=(key,)))
        truth.fewest_since_ms = None
    else:
        changed(world, name, Update(properties={key: str(fewest)}))
        truth.fewest_since_ms = world.time.now_ms, fewest
    world.say(lambda: f"others: {key} of {name} is {truth.fewest_since_ms and fewest}")


def unloadable(world: World, picks: Picks) -> None:
    """A table's metadata cannot be read, or can again."""
    name, _ = some_table(world, picks)
    if name in world.lake.unloadable:
        world.lake.unloadable.discard(name)
    elif not world.lake.unloadable and not world.oracle.clones:
        world.lake.unloadable.add(name)
    world.say(lambda: f"unloadable: {sorted(world.lake.unloadable)}")


# ---- topics and time


def topic_out(world: World, picks: Picks) -> None:
    """A topic is taken out of a file, or put back; offsets are settled."""
    driver = world.drivers["a"]
    if driver.written is not None or world.remakes != "sources" or world.broker.topics["more-a"].topic_id != "more-a-1":
        return  # a table whose newest record of a topic is of the one before cannot tell it from this one
    driver.die()
    if "more-a" in driver.topics:
        driver.topics.remove("more-a")
    else:
        driver.topics.append("more-a")
    world.say(lambda: f"the file of a names {driver.topics}")
    if not verbs.settle_offsets(world, "a", OffsetsOrigin.LOG, {}, True, False) and "more-a" not in driver.topics:
        driver.topics.append("more-a")


def topic_anew(world: World, picks: Picks) -> None:
    """A source topic is deleted and made again; a person says where to begin."""
    pipeline = picks.of(tuple(PIPELINES))
    driver = world.drivers[pipeline]
    if driver.written is not None or world.made_anew > 3 or world.remakes != "sources":
        return
    world.made_anew += 1
    name = picks.of(driver.topics)
    old = world.broker.topics[name]
    size = len(old.ends)
    stem, _, number = old.topic_id.rpartition("-")
    world.broker.topics[name] = Topic(name, f"{stem}-{int(number) + 1}", [0] * size, [0] * size)
    driver.die()
    world.say(lambda: f"topic {name} is made anew")
    world.are_lost(pipeline, world.positions.of_former(pipeline, name, world.broker.topics[name].topic_id))
    verbs.settle_given(world, pipeline, {(name, n): 0 for n in range(size)}, False)


def control_anew(world: World, picks: Picks) -> None:
    """The control topic is deleted and made again: what was announced and not committed is read again."""
    name = picks.of(tuple(world.logs))
    old = world.logs[name]
    if any(truth.unsettled for truth in world.oracle.truths.values()):
        return  # whoever moved a table back shows it to the log that filled it, and to no other
    if any(log == name and pipeline in world.moved_back for pipeline, (_, log) in PIPELINES.items()):
        return  # what a table records then says nothing of what a person wanted to be read again
    replays = [path for truth in world.oracle.truths.values() for path in truth.waiting if ".replay." in path]
    if world.made_anew > 3 or world.remakes != "control" or replays:
        return  # what a replay announced and nobody committed is lost with its log, and its group says it was read
    world.made_anew += 1
    stem, _, number = old.topic_id.rpartition("-")
    new = Log(name, f"{stem}-{int(number) + 1}")
    world.say(lambda: f"control topic {name} is made anew")
    world.new_log(name, new)
    for pipeline, (_, log) in PIPELINES.items():
        if log == name and picks.below(3):
            verbs.rebase_pipeline(world, pipeline, False)


def retention(world: World, picks: Picks) -> None:
    """Records of the control topic that are in every table expire."""
    log = world.logs[picks.of(tuple(world.logs))]
    start = min(log.low_water or 0, log.end)
    if start > log.start:
        world.expire_log(log, start)
        world.say(lambda: f"control topic {log.name} begins at {start}")


SPANS = (MINUTE_MS, MINUTE_MS, 5 * MINUTE_MS, HOUR_MS, HOUR_MS, 7 * HOUR_MS, 13 * HOUR_MS, 2 * DAY_MS, 4 * DAY_MS)


def time_passes(world: World, picks: Picks) -> None:
    span = picks.of(SPANS)
    world.time.now_ms += span
    world.say(lambda: f"{span // MINUTE_MS} minutes pass")


def sleep(world: World, picks: Picks) -> None:
    """Days pass, and others remove what is old by then and named by no snapshot."""
    world.time.now_ms += picks.of((2 * DAY_MS, 4 * DAY_MS, 4 * DAY_MS))
    world.say(lambda: "days pass")
    for _ in world.main_names():
        orphans_by_others(world, picks)


def clock_jumps(world: World, picks: Picks) -> None:
    name = picks.of(tuple(world.machines))
    ahead = picks.of((0, 0, 5 * MINUTE_MS, -5 * MINUTE_MS, HOUR_MS, -HOUR_MS, 2 * DAY_MS, -2 * DAY_MS, 30 * DAY_MS))
    world.machines[name].ahead_ms = ahead
    world.say(lambda: f"the clock of {name} is {ahead // MINUTE_MS} minutes ahead")
