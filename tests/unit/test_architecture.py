"""README and docs/architecture.md name the folders that are there; modules import no circle, and records have one
way."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from framework.cli.verbs import GROUPS
from tests import house

ROOT = Path(__file__).parents[2]
FOLDERS = {p.name for p in (ROOT / "framework").iterdir() if (p / "__init__.py").is_file()}
# `dlq` and `offsets` have verbs of their own, which remove nothing.
REMOVING = sorted(GROUPS["Repair"].keys() - {"dlq", "offsets"})


def test_the_readme_names_every_folder_and_no_other() -> None:
    """Whoever reads the table of folders has seen all of them."""
    named = re.findall(r"^\| \[framework/(\w+)\]", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(FOLDERS)


def test_the_table_of_folders_is_whole_and_in_the_order_of_imports() -> None:
    """A folder stands below those that it may import, as the contract in setup.cfg says."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted(FOLDERS)
    contract = (ROOT / "setup.cfg").read_text(encoding="utf-8").split("layers =\n", 1)[1].split("\n\n", 1)[0]
    level = {
        name.strip(): number for number, line in enumerate(contract.splitlines()) for name in re.split(r"[:|]", line)
    }
    levels = [level[name] for name in rows]
    assert levels == sorted(levels, reverse=True)


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md", "docs/concepts.md", "docs/protocol.md"])
def test_paths_that_pages_name_are_there(page: str) -> None:
    """A module that a page sends its reader to exists."""
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:framework/)?[a-z_]+(?:/[a-z_]+)+(?:\.py)?)`", text))
    tops = FOLDERS | {"framework"}
    wrong = [
        path
        for path in paths
        if path.split("/")[0] in tops
        and not any((base / path).exists() or (base / f"{path}.py").exists() for base in (ROOT, ROOT / "framework"))
    ]
    assert wrong == []


def test_names_that_the_page_puts_behind_a_module_are_in_it() -> None:
    """`` `module.py` (`name`) `` sends a reader to a name that stands there."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_/]+\.py)` \(((?:`\w+`(?:, )?)+)", text)
    wrong = [
        (path, name)
        for path, names in named
        for name in re.findall(r"`(\w+)`", names)
        if not re.search(rf"\b{name}\b", (ROOT / "framework" / path).read_text(encoding="utf-8"))
    ]
    assert len(named) >= 8
    assert wrong == []


def circle_of_imports(package: str) -> list[str]:
    """Modules that import each other in a circle, the first of them named again at the end; empty when there is none.
    Imports inside functions and those for type checkers count as well."""
    graph = grimp.build_graph(package, cache_dir=None)
    try:
        TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("verb", REMOVING)
def test_each_verb_says_what_it_may_remove_and_names_tests_that_are_there(verb: str) -> None:
    """What may be removed, what never, and the tests that say so: they are renamed on the page as well."""
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    section = page.split(f"#### `floe {verb}`\n", 1)[1].split("\n#", 1)[0]
    assert "Never: " in section
    named = re.findall(r"^- `([\w/]+\.py)::(\w+)`$", section, re.MULTILINE)
    assert len(named) >= 3
    for path, name in named:
        text = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert re.search(rf"^(def|class) {name}\b", text, re.MULTILINE), f"{path}::{name}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Each module can be read after those that it needs: nowhere do two of them need each other."""
    assert circle_of_imports("framework") == []


def test_the_check_for_circles_sees_an_import_inside_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check above can fail: a circle that a function hides is found."""
    package = tmp_path / "planted_circle"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("import planted_circle.two\n")
    (package / "two.py").write_text("def late():\n    from planted_circle import one\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert sorted(set(circle_of_imports("planted_circle"))) == ["planted_circle.one", "planted_circle.two"]


def test_no_folder_has_more_loose_modules_than_a_person_can_hold() -> None:
    """A folder with more than twelve modules of its own is divided into rooms."""
    assert {name: count for name, count in house.loose_modules().items() if count > house.MOST_LOOSE} == {}


def test_the_rooms_of_a_folder_import_one_way() -> None:
    """The rooms of each folder have an order, so that none imports a room above it."""
    assert house.circles_of_rooms() == {}


def test_a_class_name_is_used_once() -> None:
    """Whoever reads or looks for a name finds one class, in `framework` as a whole."""
    assert house.class_names() == {}


def test_the_check_of_rooms_sees_a_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail: two rooms that import each other are found."""
    graph = grimp.ImportGraph()
    for name in ("framework", "framework.one", "framework.one.a", "framework.two", "framework.two.b"):
        graph.add_module(name)
    graph.add_import(importer="framework.one.a", imported="framework.two.b")
    graph.add_import(importer="framework.two.b", imported="framework.one.a")
    monkeypatch.setattr(house.grimp, "build_graph", lambda *_, **__: graph)
    assert set(house.circles_of_rooms()["framework"]) == {"one", "two"}


def callers(name: str) -> set[str]:
    """The modules of framework that call a function or method of this name."""
    return {
        path.relative_to(ROOT / "framework").as_posix()
        for path in (ROOT / "framework").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == name
    }


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("process_block_into", {"task/blocks.py"}),
        ("process_with_sql", {"task/blocks.py"}),
        ("satisfy", {"runtime/batches/change_rounds.py"}),
        ("new_writer", {"task/task_run.py", "task/exchange.py"}),
    ],
)
def test_batches_and_replayed_dead_letters_take_the_same_way(name: str, where: set[str]) -> None:
    """What decides about a record, what changes a table for it and what writes it is called in one place for both."""
    assert {caller for caller in callers(name) if caller.split("/")[0] in ("task", "runtime", "recovery")} == where
