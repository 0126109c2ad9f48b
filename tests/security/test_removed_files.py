"""Whoever writes a table's metadata names files, and floe removes some: never one that is not the table's own.

The hostile metadata is written by PyIceberg's own catalog and by hand, as another engine would; what must stay is
compared byte by byte.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetLocationUpdate, SetStatisticsUpdate

import framework
from framework.adapters.file_io_guard import ForeignFile, open_catalog, owner_of
from framework.adapters.maintenance.tables import TableCare
from framework.config.values.maintenance import CompactionPolicy, ExpirePolicy, MaintenancePolicy, ManifestsPolicy
from framework.runtime.maintenance.tables import expire_once
from tests.iceberg.conftest import Lake
from tests.iceberg.lineage import local
from tests.iceberg.test_manifests import ok

pytestmark = pytest.mark.iceberg
SOURCES = Path(framework.__file__).parent
NOW = ExpirePolicy(max_snapshot_age_ms=0, max_snapshots=1, rollback_window_ms=0, reader_lease_ms=0)
POLICY = MaintenancePolicy(
    expire=NOW, compaction=CompactionPolicy(min_input_files=2), manifests=ManifestsPolicy(min_count=2)
)


@pytest.fixture
def lake(catalog_settings: dict[str, str]) -> Lake:
    return Lake(catalog_settings)


def filled(lake: Lake, name: str, commits: int = 4) -> str:
    lake.create(name)
    for number in range(1, commits + 1):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number)))
    return name


def maintained(lake: Lake, name: str) -> None:
    """All that removes, moves or rewrites, twice."""
    care = TableCare(lake.tables)
    for _ in range(2):
        care.compact(name, POLICY.compaction, dry_run=False)
        care.merge_manifests(name, POLICY.manifests, dry_run=False)
        done = expire_once(name, care, POLICY, {}, dry_run=False)
        assert done is not None
        care.remove(name, done.paths)


def below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def home(lake: Lake, name: str) -> Path:
    return local(lake.plain(name).location())


def test_statistics_elsewhere_stay(lake: Lake, tmp_path: Path) -> None:
    """A statistics file of an expired snapshot that lies in another place is somebody's."""
    name = filled(lake, "shop.t")
    theirs = tmp_path / "theirs.puffin"
    theirs.write_text("precious")
    table = lake.plain(name)
    old = table.snapshots()[0].snapshot_id
    statistics = StatisticsFile(
        snapshot_id=old,
        statistics_path=f"file://{theirs}",
        file_size_in_bytes=8,
        file_footer_size_in_bytes=4,
        blob_metadata=[],
    )
    lake.catalog.commit_table(table, (), (SetStatisticsUpdate(snapshot_id=old, statistics=statistics),))
    maintained(lake, name)
    assert theirs.read_text() == "precious"


def test_data_of_another_place_stays_and_is_not_copied(lake: Lake, tmp_path: Path) -> None:
    """Files that were added from elsewhere are neither rewritten into the table nor removed, also once they are
    deleted from it."""
    name, other = filled(lake, "shop.t"), filled(lake, "secret.other")
    paths = [task.file.file_path for task in lake.plain(other).scan().plan_files()]
    before = below(home(lake, other))
    lake.plain(name).add_files(paths, check_duplicate_files=False)
    TableCare(lake.tables).compact(name, POLICY.compaction, dry_run=False)
    assert {task.file.file_path for task in lake.plain(name).scan().plan_files()} >= set(paths)
    lake.plain(name).delete("id > 0")
    ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": 9}]), 9)))
    maintained(lake, name)
    assert below(home(lake, other)) == before
    assert lake.rows(other) == [1, 2, 3, 4]


def test_a_manifest_list_of_another_table_costs_it_nothing(lake: Lake) -> None:
    """A snapshot whose manifest list is another table's expires: nothing of that table goes."""
    name, other = filled(lake, "shop.t"), filled(lake, "secret.other")
    before = below(home(lake, other))
    victim = lake.plain(other).current_snapshot()
    assert victim is not None
    metadata = local(lake.plain(name).metadata_location)
    first = lake.plain(name).snapshots()[0].manifest_list
    metadata.write_text(metadata.read_text().replace(first, victim.manifest_list))
    maintained(Lake(lake.settings), name)
    assert below(home(lake, other)) == before


def test_a_table_that_moves_into_another_ones_place_removes_nothing_there(lake: Lake) -> None:
    """Where two tables claim one place neither is the owner of what lies there."""
    name, other = filled(lake, "shop.t"), filled(lake, "secret.other")
    before = below(home(lake, other))
    table = lake.plain(name)
    lake.catalog.commit_table(table, (), (SetLocationUpdate(location=lake.plain(other).location()),))
    lake.plain(name).add_files(
        [task.file.file_path for task in lake.plain(other).scan().plan_files()], check_duplicate_files=False
    )
    lake.plain(name).delete("id > 0")
    fresh = Lake(lake.settings)
    ok(fresh.tables.commit(fresh.effect(name, (), 9)))
    maintained(fresh, name)
    assert {path: data for path, data in below(home(lake, other)).items() if path in before} == before
    assert lake.rows(other) == [1, 2, 3, 4]


def test_the_innermost_place_owns() -> None:
    """A table inside another one's folder owns its files; one place of two tables is nobody's."""
    roots = {"a": ("s3://b/w/a",), "a.inner": ("s3://b/w/a/inner",), "twin": ("s3://b/w/x",), "other": ("s3a://b/w/x",)}
    assert owner_of("s3://b/w/a/data/1.parquet", roots) == "a"
    assert owner_of("s3a://b/w/a/inner/1.parquet", roots) == "a.inner"
    assert owner_of("s3://b/w/x/1.parquet", roots) is None
    assert owner_of("s3://b/w/aa/1.parquet", roots) is None


SPELLINGS = (
    "{path}", "file:{path}", "file://{path}", "file://localhost{path}", "FILE://{path}", "{path}/", "//{path}",
    "{home}/../{rest}", "file://{home}/../{rest}", "{home}/./../{rest}", "{home}/%2e%2e/{rest}", "{home}//../{rest}",
    "file:///{home}/..%2f{rest}", "{home}/\\..\\{rest}", "s3://{path}", "hdfs://nn{path}", "{path}?x={home}", "{path}#{home}",
    "{home}{path}/../../{rest}", "{home}/a/../../{rest}", "file:{home}/..;/{rest}", "{home} /../{rest}", "{home}/..\0/{rest}",
)  # fmt: skip


@pytest.mark.parametrize(("seed", "count"), [(0, 1_000), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_no_spelling_of_a_place_elsewhere_is_removed(lake: Lake, tmp_path: Path, seed: int, count: int) -> None:
    """Whatever name a hostile table's metadata has for a file elsewhere: it is still there afterwards."""
    chance = random.Random(seed)
    name = filled(lake, "shop.t", 1)
    root = home(lake, name)
    victims = [root.parent / "victim" / f"{n}.parquet" for n in range(5)] + [
        tmp_path / "out" / f"{n}" for n in range(5)
    ]
    victims += [Path(f"{root}x") / "1.parquet", root.parent / f"{root.name}.bak" / "1.parquet"]
    for each in victims:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_text("precious")
    catalog = open_catalog("default", lake.settings)
    io = catalog.load_table(name).io
    for _ in range(count):
        victim = chance.choice(victims)
        spelled = chance.choice(SPELLINGS).format(path=victim, home=root, rest=victim.relative_to(root.anchor))
        up = "/".join([".."] * chance.randint(1, len(root.parts)))
        spelled = chance.choice((spelled, spelled, f"{root}/{up}/{victim.relative_to(root.anchor)}"))
        if chance.random() < 0.2:
            at = chance.randrange(len(spelled))
            spelled = spelled[:at] + chance.choice("/.%~\\ \t") + spelled[at:]
        try:
            io.delete(spelled)
        except (ForeignFile, OSError, ValueError):
            continue
        finally:
            assert all(each.exists() for each in victims), spelled
    own = next(iter(below(root)))
    io.delete(own)
    assert not Path(own).exists()


# Every place that removes a file of a store, and why it is one of ours.
REMOVALS = {
    "adapters/file_io_guard.py": (1, "the guard itself: below the table's own places"),
    "adapters/iceberg/commits/commit.py": (1, "through the guard: files of an attempt that the catalog refused"),
    "adapters/iceberg/files.py": (1, "through the guard: the file by which the store's time is asked"),
    "adapters/iceberg/tables.py": (1, "through the guard, and not where another table lies"),
    "adapters/maintenance/copy_on_write.py": (1, "written by this very commit"),
    "adapters/iceberg/upsert/index_file.py": (1, "below the index's own folder, as the driver made it"),
    "adapters/parquet/files.py": (1, "written by this very task"),
    "adapters/parquet/long_file.py": (1, "written by this very task"),
    "ops/doctor/catalog.py": (1, "through the guard: the doctor's own table"),
    "ops/doctor/scratch.py": (1, "through the guard: the scratch table"),
    "ops/drill/scratch_world.py": (2, "through the guard: below a location with the drill's own name in it"),
    "task/output.py": (1, "written by this batch's own tasks"),
}


def test_every_place_that_removes_a_file_is_known() -> None:
    """A new one fails here, until its reason is written down: through the guard, or a file that the process made."""
    found: Counter[str] = Counter()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "delete"):
                continue
            if ast.unparse(node.func.value) not in ("np", "writer"):  # NumPy's, and an entry of a manifest
                found[path.relative_to(SOURCES).as_posix()] += 1
    named = sum("delete(location)" in line for line in (SOURCES / "adapters/file_io_guard.py").read_text().splitlines())
    found["adapters/file_io_guard.py"] += named
    assert found == {place: count for place, (count, _) in REMOVALS.items()}
