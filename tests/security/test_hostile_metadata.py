"""A campaign against everything that removes, moves or rewrites: metadata of tables that name files of others, in all
spellings, at all places where metadata names a file. No file outside of the table is changed or gone."""

from __future__ import annotations

import json
import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from framework.adapters.file_io_guard import ForeignFile
from framework.commit.file_ages import DAY_MS
from framework.errors import FloeError
from framework.runtime.maintenance.orphans import clean
from tests.conftest import Broker
from tests.iceberg.conftest import Lake
from tests.iceberg.filled_tables import Place, age
from tests.iceberg.lineage import local
from tests.iceberg.test_manifests import ok
from tests.security.test_removed_files import SPELLINGS, below, filled, home, maintained

pytestmark = [pytest.mark.iceberg, pytest.mark.kafka]
PATHS_PER_TABLE = 25
ENCODINGS = (
    lambda text: text,
    lambda text: text.replace("/", "%2F"),
    lambda text: text.replace("/", "//"),
    lambda text: text.replace("a", "%61"),
    lambda text: text + "\u0000",
    lambda text: text + "\u202e",
    lambda text: "\ufeff" + text,
    lambda text: text.replace(".", "\uff0e"),
    lambda text: text.replace("/", "\u2215"),
    lambda text: text.upper(),
)


class Hostile:
    """Spellings of files that are not the table's."""

    def __init__(self, seed: int, root: Path, victims: list[Path]) -> None:
        self._chance = random.Random(seed)
        self._root, self._victims = root, victims
        self.made = 0

    def path(self) -> str:
        self.made += 1
        victim = self._chance.choice(self._victims)
        rest = victim.relative_to(victim.anchor)
        spelled = self._chance.choice(SPELLINGS).format(path=victim, home=self._root, rest=rest)
        if self._chance.random() < 0.3:
            spelled = self._chance.choice(ENCODINGS)(spelled)
        if self._chance.random() < 0.2:
            up = "/".join([".."] * self._chance.randint(1, len(self._root.parts)))
            spelled = f"{self._root}/{up}/{rest}"
        return spelled

    def metadata(self, found: dict[str, Any]) -> dict[str, Any]:
        """The metadata with names of others at every place that has one."""
        snapshots = [each["snapshot-id"] for each in found["snapshots"]]
        old = snapshots[:-1]
        statistics = {"file-size-in-bytes": 8, "file-footer-size-in-bytes": 4, "blob-metadata": []}
        found["statistics"] = [
            {"snapshot-id": each, "statistics-path": self.path(), **statistics}
            for each in self._chance.sample(old, len(old))
        ]
        found["partition-statistics"] = [
            {"snapshot-id": each, "statistics-path": self.path(), "file-size-in-bytes": 8} for each in old
        ]
        found["metadata-log"] = [
            {"timestamp-ms": 1_000 + number, "metadata-file": self.path()} for number in range(PATHS_PER_TABLE - 8)
        ]
        found["properties"] |= {
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "1",
        }
        lists = [each for each in self._victims if each.name.startswith("snap-")]
        if self._chance.random() < 0.3:  # of a list that cannot be read nothing goes, and the table is let alone
            own = self._chance.random() < 0.5
            found["snapshots"][0]["manifest-list"] = f"file://{self._chance.choice(lists)}" if own else self.path()
        if self._chance.random() < 0.2:
            found["location"] = self.path()
        if self._chance.random() < 0.1:
            found["properties"][self._chance.choice(("write.data.path", "write.metadata.path"))] = self.path()
        return found


MANY = int(os.environ.get("FLOE_HOSTILE_TABLES", "400"))


@pytest.mark.timeout(600 + 2 * MANY)
@pytest.mark.parametrize(("seed", "tables"), [(0, 12), pytest.param(1, MANY, marks=pytest.mark.slow, id="many")])
def test_no_metadata_of_a_table_costs_others_a_file(
    lake: Lake, broker: Broker, tmp_path: Path, seed: int, tables: int
) -> None:
    """25 hostile names in each of 400 tables (10,000 with FLOE_HOSTILE_TABLES): compaction, manifests, expiry, commits,
    removal and `floe clean` leave every file of the neighbours as it was, byte by byte, however old it is; and orphans of
    the tables themselves do go."""
    topic = Place(lake, broker)
    other = filled(lake, "secret.other", 2)
    outside = tmp_path / "outside"
    for number in range(5):
        (outside / f"{number}").mkdir(parents=True)
        (outside / f"{number}" / "precious.parquet").write_text("precious")
    refused = made = cleaned = 0
    for number in range(tables):
        lake.create(name := f"shop.t{number}")
        for commit in range(1, 4):
            topic.commit(name, lake.files(name, [{"id": commit}]), commit)
        root = home(lake, name)
        orphan = root / "data" / "orphan.parquet"
        orphan.write_text("nobody's")
        twin = Path(f"{root}x")
        twin.mkdir()
        (twin / "1.parquet").write_text("precious")
        before = {place: below(place) for place in (home(lake, other), outside, twin)}
        victims = [Path(path) for files in before.values() for path in files]
        hostile = Hostile(seed * 1_000_003 + number, root, victims)
        file = local(lake.plain(name).metadata_location)
        file.write_text(json.dumps(hostile.metadata(json.loads(file.read_text()))))
        fresh = Lake(lake.settings)  # what another process sees, with nothing cached
        for path in (orphan, *victims):
            age(path)
        try:
            ok(fresh.tables.commit(fresh.effect(name, (), 9, topic=topic.topic_id)))
            maintained(fresh, name)
        except Exception:  # hostile metadata may stop the table itself, and does nothing else
            refused += 1
        with suppress(FloeError):
            clean(topic.kafka, (topic.topic,), Lake(lake.settings).tables, (name,), DAY_MS, True, lambda text: None)
        cleaned += not orphan.exists()
        with suppress(FloeError, ForeignFile, OSError, ValueError):
            list(fresh.tables.remove_files(name, [hostile.path() for _ in range(8)]))
        made += hostile.made
        # A data path may lie below the warehouse, so that files may be added there; none is gone or other than it was.
        for place, files in before.items():
            after = below(place)
            assert {path: after.get(path) for path in files} == files, name
        shutil.rmtree(root)
        shutil.rmtree(twin)
        with suppress(Exception):
            lake.catalog.drop_table(name)
    assert made >= tables * PATHS_PER_TABLE
    assert cleaned > tables * 0.3
    assert refused < tables * 0.6, "most tables are maintained, or the campaign shows nothing"


@pytest.fixture
def lake(catalog_settings: dict[str, str]) -> Lake:
    return Lake(catalog_settings)
