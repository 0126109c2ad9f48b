"""How the code is laid out, in figures: `python -m tests.house`.

In: the modules of `framework`. Out: modules and lines by folder, the largest folder, the longest modules, class names
that are used more than once, imports between the rooms of one folder that point both ways or in a circle, and the way
of a JSON record (tests.json_way). The architecture tests hold the same functions to their limits.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

from tests import json_way

ROOT = Path(__file__).parents[1]
CODE = ROOT / "framework"
MOST_LOOSE = 12


def modules() -> list[Path]:
    return sorted(path for path in CODE.rglob("*.py") if path.name != "__init__.py")


def loose_modules() -> dict[str, int]:
    """How many modules lie in each folder itself."""
    return dict(Counter(str(path.parent.relative_to(ROOT)) for path in modules()))


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def class_names() -> dict[str, list[str]]:
    """The names of classes that are used more than once, with the modules that use them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(CODE)))
    return {name: where for name, where in sorted(found.items()) if len(where) > 1}


def circles_of_rooms() -> dict[str, list[str]]:
    """For each folder whose rooms import each other in a circle: that circle. An order of the rooms in which no import
    points upward exists where there is none. Imports inside functions count as well."""
    graph = grimp.build_graph("framework", cache_dir=None)
    packages = {name for name in graph.modules if graph.find_children(name)}
    found = {}
    for folder in sorted(packages):
        arrows: dict[str, set[str]] = defaultdict(set)
        inside = [name for name in graph.modules - packages if name.startswith(f"{folder}.")]
        for name in inside:
            for other in graph.find_modules_directly_imported_by(name):
                rooms = [_room(each, folder) for each in (name, other)]
                if other.startswith(f"{folder}.") and None not in rooms and rooms[0] != rooms[1]:
                    arrows[str(rooms[0])].add(str(rooms[1]))
        try:
            tuple(TopologicalSorter(arrows).static_order())
        except CycleError as error:
            found[folder] = list(error.args[1])
    return found


def _room(module: str, folder: str) -> str | None:
    """The room of a folder that a module lies in; None: it lies in the folder itself."""
    first, _, rest = module.removeprefix(f"{folder}.").partition(".")
    return first if rest else None


def main() -> None:
    loose, lengths = loose_modules(), {path: lines_of(path) for path in modules()}
    totals: Counter[str] = Counter()
    for path, length in lengths.items():
        totals[path.relative_to(CODE).parts[0]] += length
    print("| folder | modules | lines |\n|---|---|---|")
    for name, length in totals.most_common():
        count = sum(path.relative_to(CODE).parts[0] == name for path in lengths)
        print(f"| `{name}` | {count} | {length:,} |")
    in_order = sorted(lengths.values())
    largest = max(loose, key=lambda name: loose[name])
    print(f"\n{len(lengths)} modules, {sum(in_order):,} lines in {len(loose)} folders")
    print(f"largest folder: {largest}, {loose[largest]} modules; on average {len(lengths) / len(loose):.1f}")
    print(f"length of a module: median {in_order[len(in_order) // 2]}, p90 {in_order[len(in_order) * 9 // 10]}")
    print("over 400 lines: " + ", ".join(f"{p.relative_to(CODE)} {n}" for p, n in lengths.items() if n > 400))
    names = class_names()
    print(f"class names used more than once: {len(names)}: {', '.join(names)}")
    print(f"folders whose rooms import each other in a circle: {circles_of_rooms() or 0}")
    json_way.show()


if __name__ == "__main__":
    main()
