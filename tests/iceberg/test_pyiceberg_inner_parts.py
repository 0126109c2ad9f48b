"""What floe uses of PyIceberg's inner parts is there, and is called: `make pyiceberg VERSION=...` asks that of another
version."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
from pyiceberg import catalog as catalog_of_pyiceberg

from framework.adapters.file_io import file_io
from framework.adapters.iceberg import private
from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.machine.effects import Committed
from tests.iceberg.conftest import Lake
from tests.iceberg.deletes import Deleter
from tests.iceberg.rest_server import RestServer

pytestmark = pytest.mark.iceberg

ROOT = Path(__file__).parents[2] / "framework"
# Where inner names of PyIceberg may stand.
ROOMS = ("adapters/iceberg/private/", "adapters/parquet/private.py", "adapters/store/private.py")


def private_modules() -> list[ModuleType]:
    found = [f"{private.__name__}.{each.name}" for each in pkgutil.iter_modules(private.__path__)]
    return [importlib.import_module(name) for name in (*found, "framework.adapters.store.private")]


def heirs() -> list[type]:
    """The classes in the private room that are made from one of PyIceberg's."""
    found = [
        each
        for module in private_modules()
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__ and upstream(each)
    ]
    return sorted(found, key=lambda each: each.__qualname__)


def upstream(ours: type) -> list[type]:
    return [each for each in ours.__mro__[1:] if each.__module__.split(".")[0] == "pyiceberg"]


def plain(member: object) -> Any:
    return member.fget if isinstance(member, property) else member


def overrides(ours: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(ours).items():
        if getattr(plain(member), "__override__", False):
            yield name, plain(member)


@pytest.mark.parametrize("ours", heirs(), ids=lambda each: each.__qualname__)
def test_an_override_overrides_something(ours: type) -> None:
    """Each method that is marked as an override exists upstream and takes the same arguments; no other has the name of
    one."""
    marked = dict(overrides(ours))
    for name, method in marked.items():
        theirs = next((plain(vars(base)[name]) for base in upstream(ours) if name in vars(base)), None)
        assert theirs is not None, f"PyIceberg has no {ours.__name__}.{name} any more"
        theirs = theirs.__func__ if isinstance(theirs, staticmethod) else theirs
        names = [each for each in inspect.signature(theirs).parameters if each != "self"]
        assert [each for each in inspect.signature(method).parameters if each != "self"] == names, name
    own = {name for name, member in vars(ours).items() if inspect.isfunction(plain(member))} - marked.keys()
    shadows = {name for name in own - {"__init__", "__hash__"} if any(name in vars(base) for base in upstream(ours))}
    assert shadows == set(), "these replace methods of PyIceberg without saying so"


@pytest.mark.parametrize("ours", heirs(), ids=lambda each: each.__qualname__)
def test_each_says_which_change_upstream_would_make_it_go(ours: type) -> None:
    """Each class made from one of PyIceberg's says when it can be removed."""
    assert "Goes when PyIceberg" in " ".join((ours.__doc__ or "").split())


def test_inner_names_stand_in_the_private_rooms_alone() -> None:
    """Names of PyIceberg with an underscore, and classes made from its own, are in the private rooms and nowhere
    else."""
    found = [
        f"{path.relative_to(ROOT)}: {node.module}.{alias.name}"
        for path in sorted(ROOT.rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(ROOMS)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pyiceberg"
        for alias in node.names
        if alias.name.startswith("_") or any(part.startswith("_") for part in (node.module or "").split("."))
    ]
    assert found == []
    outside = []
    for path in sorted(ROOT.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name.startswith(ROOMS) or "pyiceberg" not in path.read_text():
            continue
        module = importlib.import_module(
            "framework." + name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        )
        outside += [
            f"{name}: {each.__name__}"
            for each in vars(module).values()
            if inspect.isclass(each) and each.__module__ == module.__name__ and upstream(each)
        ]
    assert outside == []


@pytest.mark.parametrize("module", private_modules(), ids=lambda each: each.__name__.rpartition(".")[2])
def test_inner_attributes_exist_upstream(module: ModuleType) -> None:
    """Each attribute with an underscore that a private module reads is its own, or PyIceberg sets it."""
    tree = ast.parse(inspect.getsource(module))
    read = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and is_inner(node.attr)
    }
    own = set().union(*(names_of(ast.parse(inspect.getsource(each))) for each in {module, *rooms_of_bases(module)}))
    ours = [each for each in heirs() if each.__module__ == module.__name__]
    sources = {inspect.getmodule(base) for each in ours for base in upstream(each)}
    theirs = {
        name
        for source in sources
        if source is not None
        for node in ast.walk(ast.parse(inspect.getsource(source)))
        for name in [
            node.attr
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            else getattr(node, "name", "")
        ]
    }
    theirs |= {"_data"}  # of `Record`
    if (
        module.__name__ == "framework.adapters.iceberg.private.hive"
    ):  # which imports Thrift, and changes the catalog at hand
        theirs |= names_of(
            ast.parse(Path(catalog_of_pyiceberg.__file__).with_name("hive.py").read_text(encoding="utf-8"))
        )
    inherited = {
        name for each in ours for base in each.__mro__[1:] if base not in upstream(each) for name in vars(base)
    }
    assert read - own - theirs - inherited == set()
    # What is both ours and an override must be upstream's, too: `test_an_override_overrides_something` asks that.


def names_of(tree: ast.AST) -> set[str]:
    """What a module defines: functions, attributes that it sets, and fields."""
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    found |= {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return found | {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def rooms_of_bases(module: ModuleType) -> set[ModuleType]:
    """The private modules whose classes this one's are made from."""
    classes = [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__]
    names = {base.__module__ for each in classes for base in each.__mro__[1:]}
    return {each for each in private_modules() if each.__name__ in names}


def is_inner(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each override was called by PyIceberg's own code; public ones and those of protocols, by anyone."""
    counted: Counter[str] = Counter()

    def counting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            frame: FrameType | None = sys._getframe(1)
            caller = "" if frame is None else str(frame.f_globals.get("__name__", ""))
            if caller.split(".")[0] == "pyiceberg" or not is_inner(name.rpartition(".")[2]):
                counted[name] += 1
            return method(*args, **kwargs)

        return call

    for ours in heirs():
        for name, member in list(vars(ours).items()):
            if not getattr(plain(member), "__override__", False):
                continue
            wrapped = counting(f"{ours.__qualname__}.{name}", plain(member))
            monkeypatch.setattr(ours, name, property(wrapped) if isinstance(member, property) else wrapped)
    return counted


def test_every_override_is_called(lake: Lake, calls: Counter[str]) -> None:
    """Making tables, committing to them and deleting from them, of versions 2 and 3, in a SQL and in a REST catalog, and naming
    a file in S3 calls every override: one that is no longer called is a loss of speed, of a time-out or of row ids that nobody
    would see."""
    for version in ("2", "3"):
        name = lake.create(f"shop.v{version}", format_version=version)
        for offset in (1, 2):
            commit(lake.tables, lake, name, offset)
        assert lake.rows(name) == [1, 1]
        deleter = Deleter(lake)
        deleter.commit(name, {next(iter(deleter.live(name).by_path)): [0]}, lake.files(name, [{"id": 1, "name": "a"}]))
        assert lake.rows(name) == [1, 1]
    server = RestServer(lake.catalog)  # type: ignore[arg-type]
    try:
        tables = IcebergTables.over({"default": IcebergCatalog({"type": "rest", "uri": server.uri})})
        commit(tables, lake, "shop.v2", 3)
        assert lake.rows("shop.v2") == [1, 1, 1]
    finally:
        server.shutdown()
        server.server_close()
    place = "s3://bucket/a"
    file_io({"s3.region": "us-east-1", "s3.endpoint": "http://127.0.0.1:9"}, place).new_input(place)
    wanted = {f"{ours.__qualname__}.{name}" for ours in heirs() for name, _ in overrides(ours)}
    assert wanted - calls.keys() == set(), "PyIceberg no longer calls these"


def commit(tables: IcebergTables, lake: Lake, name: str, offset: int) -> None:
    answer = tables.commit(lake.effect(name, lake.files(name, [{"id": 1, "name": "a"}]), offset))
    assert isinstance(answer, Committed), answer
