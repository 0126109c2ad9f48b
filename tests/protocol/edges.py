"""Small worlds at the edges of the protocol, each with its log already written.

In: nothing. Out: worlds in which something happens that an ordinary history leaves out: a table with two names,
partitions that are given up and come back, a topic that is made anew and grows, a control topic that is cut off, tables
that are put back. Each is sound with the real code; `test_mutations` takes one rule out and finds the fault.
"""

from __future__ import annotations

from framework.commit.events.event_types import CommitToTable, DataWritten, Discarded
from tests.protocol import world as w
from tests.protocol.build import STEP
from tests.protocol.explore import Scope, start

T = "db.t"
OTHER_T = "DB.T"  # the catalog folds names: the same table
ALIAS = ((OTHER_T, T),)


def announce(world: w.World, *order: str) -> w.World:
    """Workers append in the order of their names until the log is written."""
    for name in order:
        worker = next(x for x in world.workers if x.pipeline == name)
        world = w.worker_append(world, worker)
    return world


def _worker(world: w.World) -> w.Worker:
    (worker,) = world.workers
    return worker


def _whole_batches(world: w.World, count: int) -> w.World:
    """The only worker announces so many batches."""
    for _ in range(count):
        world = w.worker_append(world, _worker(world))
        while _worker(world).appended:
            world = w.worker_append(world, _worker(world))
    return world


def two_names_of_one_table() -> w.World:
    """Two pipelines announce for one table, each under its own spelling; the one of later name comes first."""
    return announce(start(Scope((((T,),), ((OTHER_T,),)), aliases=ALIAS))[0], *"abba")


def two_names_in_one_batch() -> w.World:
    """Each batch has rows for both spellings of one table."""
    return _whole_batches(start(Scope((((T, OTHER_T), (T, OTHER_T)),), aliases=ALIAS))[0], 2)


def given_up_and_read_from_its_start() -> w.World:
    """A partition is given up, and comes back from the start of its log, which no sound driver does."""
    world = _whole_batches(start(Scope((((T,), (T,), (T,), (T,)),), partitions=2))[0], 2)
    world = w.give_up(world, _worker(world))
    world = w.take_back(world, _worker(world), kept=False)
    return _whole_batches(world, 2)


def given_up_and_taken_back() -> w.World:
    """A partition is given up, and comes back where that was."""
    world = _whole_batches(start(Scope((((T,), (T,), (T,), (T,)),), partitions=2))[0], 2)
    world = w.give_up(world, _worker(world))
    world = w.take_back(world, _worker(world))
    return _whole_batches(world, 2)


def made_anew_and_grown() -> w.World:
    """A topic of two partitions is made anew with one, read on, and grows to two again."""
    world = _committed(_whole_batches(start(Scope((((T,), (T,), (T,), (T,), (T,)),), partitions=2))[0], 2))
    world = w.make_anew(world, _worker(world))
    world = _whole_batches(world, 1)
    world = w.grow(world, _worker(world))
    return _whole_batches(world, 2)


def _committed(world: w.World) -> w.World:
    """Everything that is announced is committed by a coordinator, which ends after it has stored the low-water mark."""
    world, found = w.drain(world)
    assert found == []
    return w.crash(world, 0)


def cut_off_and_written_anew() -> w.World:
    """Everything is committed; the log loses its last two records, markers and information, and the next batch takes
    their place below what the table and the coordinator have recorded."""
    world = _whole_batches(start(Scope((((T,), (T,)),)))[0], 1)
    world = w.append_plainly(w.append_plainly(world, w.note()), w.note())
    world = _committed(world)
    return _whole_batches(w.truncate(world, len(world.log) - 2), 1)


def another_leader_inside_a_transaction() -> w.World:
    """The records of a transaction and the marker that ends it are taken by two leaders; the batch is still to be announced
    again."""
    world = _whole_batches(start(Scope((((T,), (T,)),)))[0], 1)
    world = w.new_leader(w.worker_append(world, _worker(world)))
    return w.worker_crash(world, _worker(world))


def cut_off() -> w.World:
    """The same, with nothing announced since."""
    world = _whole_batches(start(Scope((((T,), (T,)),)))[0], 1)
    world = _committed(w.append_plainly(w.append_plainly(world, w.note()), w.note()))
    return w.truncate(world, len(world.log) - 2)


def put_back_to_an_older_state() -> w.World:
    """Two batches are committed, one by one; the table is put back to the state between them; a third is announced."""
    world = _committed(_whole_batches(start(Scope((((T,), (T,), (T,)),)))[0], 1))
    world = _committed(_whole_batches(world, 1))
    world = w.put_back(world, T, len(world.table(T).versions) - 1)
    assert world.table(T).lost
    return _whole_batches(world, 1)


def record_taken_away() -> w.World:
    """A batch is committed, and its coordinator dies before it has stored how far it came; then somebody takes the
    table's record away."""
    world = _committed(_whole_batches(start(Scope((((T,), (T,)),)))[0], 1))
    world = w.replace(world, low_water=None, chain_from=None, low_water_epoch=None, records_end=None)
    return w.unset_progress(world, T)


def put_back_inside_a_batch() -> w.World:
    """A batch in two parts is committed, with another pipeline's batch between the parts that waits for another table;
    the low-water mark stands between the parts; the table is put back to before the batch, and a further batch is
    announced."""
    world = start(Scope((((f"{T}*2",), (T,)), (("db.u",),))))[0]
    world = announce(world, *"ab")
    world = announce(world, *"aa")
    world = _committed(world)
    world = w.put_back(world, T, 0)
    assert world.low_water is not None
    return w.replace(world, low_water=1, chain_from=0)


def record_and_snapshots_taken_away() -> w.World:
    """A batch is committed; somebody else commits on top; the snapshot that shows floe's record expires, and the record
    itself is taken away. The log alone tells of it, to a coordinator that begins at its start."""
    world = _committed(_whole_batches(start(Scope((((T,), (T,)),)))[0], 1))
    table = world.table(T)
    assert table.progress is not None
    world = w.append_plainly(world, CommitToTable(T, table.uuid, 1, "c", table.progress.control_offset, STEP, 1, 0))
    world = w.foreign_commit(world, T)
    world = w.expire(world, T)
    world = w.unset_progress(
        w.replace(world, low_water=None, chain_from=None, low_water_epoch=None, records_end=None), T
    )
    return _whole_batches(world, 1)


def rolled_back_to_before_the_first_commit() -> w.World:
    """Somebody else has filled the table before; two batches come in; then it is rolled back to where that ended."""
    world = start(Scope((((T,), (T,)),)))[0]
    world = w.foreign_commit(world, T)
    world = _committed(_whole_batches(world, 1))
    world = w.rollback(world, T, 1)
    return _whole_batches(world, 1)


def first_part_given_up() -> w.World:
    """Of a batch in two parts the first was given up, as its files were gone; the low-water mark stands at the
    second."""
    world = announce(start(Scope((((f"{T}*2",), (T,)),)))[0], *"aaa")
    world = w.append_plainly(world, Discarded(T, 0, 1, 1, 1, {"a": STEP}, "files gone", 0))
    return w.replace(world, low_water=1, chain_from=0)


def first_part_given_up_under_another_name() -> w.World:
    """Of a batch with rows for both spellings of one table the first part was given up; the low-water mark stands
    behind it, so a coordinator that begins there knows the table by its other name alone."""
    world = announce(start(Scope((((T, OTHER_T), (T,)),), aliases=ALIAS))[0], *"aaa")
    world = w.discard_first(world, T, 1)
    return w.replace(world, low_water=1, chain_from=0)


def repeated_for_another_table() -> w.World:
    """A batch was announced for one table, and once more for another, in which none of it is; then comes a batch for
    that."""
    world = _whole_batches(start(Scope((((T,), (T, "db.u")),)))[0], 1)
    source = w.ranges_of(world, "a", 1)
    world = w.announce_wrongly(world, "a", 1, "db.u", run="copy", source=source)
    return _whole_batches(w.worker_crash(world, _worker(world)), 1)


def read_again_below_the_mark() -> w.World:
    """Two batches wait, each of another partition; the first is read again, as a person moved that partition back; the
    low-water mark stands behind it."""
    world = _whole_batches(start(Scope((((T,), (T,), (T,)),), partitions=2))[0], 2)
    second = max(offset for offset, entry in enumerate(world.log) if isinstance(entry.event, DataWritten))
    world = w.settle_offsets(world, _worker(world), -STEP)
    return w.replace(world, low_water=second, chain_from=0)


def read_again_behind_what_was_lost() -> w.World:
    """One batch is committed and the low-water mark stands behind it; another waits. The table is put back to before
    the first, and a person moves the pipeline back into the second alone."""
    world = _committed(_whole_batches(start(Scope((((T,), (T,), (T,)),)))[0], 1))
    first = len(world.log)
    world = w.settle_offsets(_whole_batches(world, 1), _worker(world), -STEP // 2)
    return w.replace(w.put_back(world, T, 0), low_water=first, chain_from=0)


def first_part_given_up_and_put_back() -> w.World:
    """One batch is committed; of the next, in two parts, the first part is given up; then the table is put back to
    before both of them."""
    world = _committed(_whole_batches(start(Scope((((T,), (f"{T}*2",)),)))[0], 1))
    world = w.discard_first(_whole_batches(world, 1), T, 1)
    return w.put_back(world, T, 0)
