"""Other people's programs on the tables of a campaign, each a process of its own: readers, a tagger, two expiries.

    python -m tests.chaos.strangers ROLE REQUEST      ROLE: reader | tagger | expirer | spark

In: a catalog's settings, a seed and times, as JSON. Out: one JSON line on standard output for each thing done; a line
with `error` for what must never happen. Nothing of floe is imported: PyIceberg, or Spark with Iceberg's own runtime.
Whoever expires keeps the readers' lease, too: it lets go what has not been a head for that long, as it saw itself.
"""

from __future__ import annotations

import json
import random
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, RESTError
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

MOST_REFERENCES = 40
# Asked of the catalog's own refusals: another committer was first, or the snapshot went before the tag came.
REFUSED = (CommitFailedException, RESTError, ValueError)


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def all_tables(catalog: Catalog, namespace: str) -> list[str]:
    known = {name[0] for name in catalog.list_namespaces()}
    return sorted(".".join(each) for each in catalog.list_tables(namespace)) if namespace in known else []


class Stranger:
    def __init__(self, request: dict[str, Any]) -> None:
        self.settings: dict[str, str] = request["settings"]
        self.catalog = load_catalog("default", **self.settings)
        self.chance = random.Random(request["seed"])
        self.lease_s: float = request["lease_s"]
        self.count = 0
        self.references: dict[tuple[str, str], bool] = {}
        self.former: dict[str, dict[int, float]] = {}

    def a_table(self) -> str | None:
        tables = all_tables(self.catalog, "shop")
        return self.chance.choice(tables) if tables else None

    # ---- readers -----------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Open a table, wait for most of the lease, and only then read what was its head when it was opened."""
        name = self.a_table()
        if name is None:
            return
        opened, table = time.monotonic(), self.catalog.load_table(name)
        head = table.current_snapshot()
        if head is None:
            return
        time.sleep(self.chance.choice((0.0, 0.3, 0.7)) * self.lease_s)
        try:
            ids = table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        except Exception:
            took_s = time.monotonic() - opened
            if took_s > self.lease_s:
                say(late=name, took_s=took_s)
                return
            say(error="a reader failed within its lease", table=name, snapshot=head.snapshot_id, took_s=took_s,
                trace=traceback.format_exc()[-1500:])  # fmt: skip
            return
        if len(ids) != len(set(ids)):
            say(error="a reader saw an id twice", table=name, snapshot=head.snapshot_id)
        say(read=name, rows=len(ids))

    # ---- tags --------------------------------------------------------------------------------------------------------

    def tag(self) -> None:
        """Set a tag or a branch on a snapshot that is there, or remove one; what was set is read at once."""
        mine = sorted(self.references)
        if mine and (len(mine) > MOST_REFERENCES or self.chance.random() < 0.3):
            name, label = self.chance.choice(mine)
            manage = self.catalog.load_table(name).manage_snapshots()
            is_branch = self.references.pop((name, label))  # whatever the answer is, it is not counted on any more
            say(removing=label, table=name)
            try:
                (manage.remove_branch(label) if is_branch else manage.remove_tag(label)).commit()
            except REFUSED as error:
                say(refused=f"{type(error).__name__}: {error}"[:200], table=name)
            return
        name = self.a_table()
        table = self.catalog.load_table(name) if name is not None else None
        if name is None or table is None or not table.metadata.snapshots:
            return
        snapshot = self.chance.choice(table.metadata.snapshots).snapshot_id
        self.count += 1
        is_branch = self.chance.random() < 0.3
        label = f"{'branch' if is_branch else 'tag'}-{self.count}"
        try:
            manage = table.manage_snapshots()
            (manage.create_branch(snapshot, label) if is_branch else manage.create_tag(snapshot, label)).commit()
        except REFUSED as error:
            say(refused=f"{type(error).__name__}: {error}"[:200], table=name)
            return
        self.references[name, label] = is_branch
        say(set=label, table=name, snapshot=snapshot)
        rows = len(table.scan(snapshot_id=snapshot, selected_fields=("id",)).to_arrow())
        say(rows_of=label, table=name, rows=rows)

    # ---- expiry ------------------------------------------------------------------------------------------------------

    def long_gone(self, name: str, table: Table) -> list[int]:
        """Snapshots that this process has not seen as a head for twice the lease, and that no reference needs."""
        now_s = time.monotonic()
        heads = {each.snapshot_id for each in table.metadata.refs.values()}
        known = self.former.get(name, {})
        self.former[name] = {
            each.snapshot_id: known.get(each.snapshot_id, now_s)
            for each in table.metadata.snapshots
            if each.snapshot_id not in heads
        }
        return [each for each, since_s in self.former[name].items() if now_s - since_s > 2 * self.lease_s]

    def expire(self) -> None:
        for name in all_tables(self.catalog, "shop"):
            table = self.catalog.load_table(name)
            gone = self.long_gone(name, table)
            if gone and self.chance.random() < 0.3:
                say(expiring=gone, table=name)
                try:
                    table.maintenance.expire_snapshots().by_ids(gone).commit()
                except REFUSED as error:
                    say(refused=f"{type(error).__name__}: {error}"[:200], table=name)
                else:
                    say(expired=len(gone), table=name)

    def spark_maintains(self, ask: Callable[[str], object]) -> None:
        """Iceberg's own procedures: expiry with the removal of files, and rewriting now and then."""
        for name in all_tables(self.catalog, "shop"):
            gone = self.long_gone(name, self.catalog.load_table(name))
            roll = self.chance.random()
            if gone and roll < 0.2:
                ids = ", ".join(f"{each}L" for each in gone)
                call = f"expire_snapshots(table => '{name}', snapshot_ids => ARRAY({ids}))"
            elif roll > 0.99 and ".u_" not in name:
                gone, call = [], f"rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
            else:
                continue
            say(expiring=gone, table=name)
            try:
                ask(f"CALL `default`.system.{call}")
            except Exception as error:  # to lose against floe is no failure
                say(refused=f"{type(error).__name__}: {error}"[:300], table=name)
            else:
                say(done=call.partition("(")[0], table=name)


def spark_session(settings: dict[str, str]) -> Callable[[str], object]:
    from pyspark.sql import SparkSession

    from testbed.servers.spark_reader import java_settings

    catalog, packages = java_settings(settings)
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.catalog.default", "org.apache.iceberg.spark.SparkCatalog")
    builder = builder.config("spark.sql.catalog.default.cache-enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "1").config("spark.jars.packages", ",".join(packages))
    for key, value in catalog.items():
        builder = builder.config(f"spark.sql.catalog.default.{key}", value)
    spark = builder.getOrCreate()
    return lambda call: spark.sql(call).collect()


def main(role: str, request: dict[str, Any]) -> None:
    stranger = Stranger(request)
    ask = spark_session(stranger.settings) if role == "spark" else None
    act: Callable[[], None] = {
        "reader": stranger.read,
        "tagger": stranger.tag,
        "expirer": stranger.expire,
        "spark": lambda: stranger.spark_maintains(ask),  # type: ignore[arg-type]
    }[role]
    pause_s = {"reader": 0.5, "tagger": 1.5, "expirer": 3.0, "spark": 3.0}[role]
    while True:
        time.sleep(pause_s)
        try:
            act()
        except (NoSuchTableError, OperationalError) as error:  # the latter: too many wait for one SQLite file
            say(refused=str(error)[:200])
        except Exception:
            say(error="a stranger failed", trace=traceback.format_exc()[-2500:])


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
