"""Results of blocks to files: what a task's blocks gave is buffered by table, and written when the task ends.

In: one BlockResult a block. Out: the files, rows and needs of a TaskReport. Keeps a task all or nothing: once a block
needs a table changed, or a record met the policy `fail`, no file of the task is kept.
"""

from __future__ import annotations

import pyarrow as pa

from framework.adapters.store.counts import taken
from framework.record.formats.wire import SchemaRef, WriterSchema
from framework.record.model import BlockResult, DeadLetter, TableNeed, TaskRangeReport, TaskReport, UpsertRows
from framework.table.upsert.refused import RefusedAct, refused_by_upsert_table
from framework.task.context import TaskContext
from framework.task.exchange import Outbox
from framework.task.output import new_writer
from framework.task.upsert.newest import number_of_topic


class TaskRun:
    """Gathers the results of a task's blocks; files are closed at the end, so a task that fails reports nothing. With
    an outbox, rows of the tables that it takes go there; dead letters never do."""

    def __init__(self, context: TaskContext, outbox: Outbox | None = None) -> None:
        self.context = context
        self.writer = new_writer(context)
        self.outbox = outbox
        self.needs: dict[str, TableNeed] = {}
        self.failure: DeadLetter | None = None
        self.rows: dict[str, int] = {}
        self.slices: list[TaskRangeReport] = []
        self.learned: dict[SchemaRef, WriterSchema] = {}

    def add(self, result: BlockResult, topic: str = "", partition: int = -1) -> None:
        """Take in one block of a topic's partition: its rows are buffered unless some table must change first."""
        from framework.record.dead_letters.dead_letter import dead_letters_to_arrow
        from framework.table.evolve import merge_needs

        plan = self.context.plan
        for name, need in result.needs.items():
            self.needs[name] = merge_needs([self.needs[name], need]) if name in self.needs else need
        self.failure = self.failure or result.failure
        if result.dead_letters:
            name = plan.write.dead_letter_table or ""
            if name and name not in self.context.tables:
                self.needs.setdefault(name, TableNeed(name, ()))
        if self.needs or self.failure:
            # The batch will be done again or not at all: go on reading only to learn everything that must change.
            return
        if result.dead_letters:
            target = self.context.tables[name]
            dead_letters = dead_letters_to_arrow(result.dead_letters, plan.pipeline, self.context.run, target)
            self.writer.add(target, dead_letters)
            self.rows[name] = self.rows.get(name, 0) + len(dead_letters)
        for table, rows in result.rows.items():
            self._write(table, rows)
        for table, changes in result.keyed.items():
            self._send(table, changes, topic, partition)
        for alike in result.alike:
            if self.outbox is None and self.writer.add_alike(
                [self.context.tables[name] for name in alike.tables], alike
            ):
                for table, count in zip(alike.tables, alike.counts(), strict=True):
                    if count:
                        self.rows[table] = self.rows.get(table, 0) + count
            else:
                for table, _, rows in alike.split():
                    self._write(table, rows)

    def _write(self, table: str, rows: pa.Table) -> None:
        if len(rows):
            writer = self.outbox if self.outbox is not None and self.outbox.takes(table) else self.writer
            writer.add(self.context.tables[table], rows)
            self.rows[table] = self.rows.get(table, 0) + len(rows)

    def _send(self, table: str, changes: UpsertRows, topic: str, partition: int) -> None:
        """Changes by key are written behind the exchange alone: whoever writes one must have all of its key."""
        if self.outbox is None and not self.context.is_trial:
            raise refused_by_upsert_table(RefusedAct.WRITE_ALONE, table, len(changes))
        if self.outbox is not None and len(changes):
            source = number_of_topic(topic, tuple(self.context.topic_ids)), partition
            self.outbox.add_upsert(self.context.tables[table], changes, source)
            self.rows[table] = self.rows.get(table, 0) + len(changes)

    def finish(self) -> TaskReport:
        if self.needs or self.failure:
            self.writer.discard()
            if self.outbox is not None:
                self.outbox.discard()
            return TaskReport(
                tuple(self.slices), {}, {}, {}, self.needs, self.failure, requests=taken(), learned=self.learned
            )
        files = self.writer.finish()
        if self.context.is_trial:
            self.writer.discard()
            files = {}
        targets = {name: (t.table_uuid, t.schema_id) for name in files for t in (self.context.tables[name],)}
        sent_bytes = self.outbox.sent_bytes if self.outbox is not None else 0
        return TaskReport(
            tuple(self.slices),
            files,
            targets,
            self.rows,
            {},
            None,
            sent_bytes=sent_bytes,
            requests=taken(),
            learned=self.learned,
        )
