"""Two templates of different files, of which one upserts and the other appends: no record may lead both to one table.

In: the tree and the spec of each file. Out: findings at the template that appends, whatever the order of the files. A
record decides how such a name ends, so a name is looked for that both can make, inside of what both allow. How long is
looked is bounded; what is not found then, a run finds: the table records its owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from framework.config.names.common_names import Pattern, common_name, of_glob, of_template
from framework.config.spec import PipelineSpec
from framework.config.tree import Mapping, find
from framework.diagnose.diagnostic import Diagnostic, Span

# Searches for a common name, in all files together.
_MOST_SEARCHES = 2_000


@dataclass(frozen=True)
class _Template:
    text: str
    spec: PipelineSpec
    span: Span
    file: int
    path: str

    @property
    def beginning(self) -> str:
        return self.text.partition("{")[0].lower()


def templates_that_meet(files: Sequence[tuple[Mapping | None, PipelineSpec | None]]) -> list[list[Diagnostic]]:
    """The findings of each file, in the order of the files."""
    findings: list[list[Diagnostic]] = [[] for _ in files]
    templates = list(_templates(files))
    upserting = [each for each in templates if each.spec.tables.has_upserts]
    if not upserting:
        return findings
    left = _MOST_SEARCHES
    for mine in templates:
        for other in upserting:
            if mine.file == other.file or not _may_meet(mine.beginning, other.beginning):
                continue
            if left <= 0:
                return findings
            found = None
            for patterns in _asked(mine, other):
                left -= 1
                name = common_name(patterns)
                if name is not None and _is_upserted(other, name) and not _is_upserted(mine, name):
                    found = name
                    break
            if found is not None:
                findings[mine.file].append(_finding(mine, other, found))
                break
    return findings


def _templates(files: Sequence[tuple[Mapping | None, PipelineSpec | None]]) -> Iterator[_Template]:
    for number, (tree, spec) in enumerate(files):
        if tree is None or spec is None:
            continue
        seen: set[str] = set()
        for index, rule in enumerate(spec.routes.rules):
            if "{" in rule.table and rule.table not in seen:
                seen.add(rule.table)
                node = find(tree, ("routes", "rules", index, "table")) or tree
                yield _Template(rule.table, spec, node.span, number, f"routes.rules[{index}].table")


def _may_meet(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _asked(mine: _Template, other: _Template) -> Iterator[list[Pattern]]:
    """What a name must match that both make: for each two globs that allow it, anywhere first, then where a file says of
    some tables how they are written."""
    said = [glob for each in (other, mine) for glob, _ in each.spec.tables.overrides]
    for theirs in other.spec.routes.allow_tables:
        for own in mine.spec.routes.allow_tables:
            both = [of_template(each.text.lower()) for each in (mine, other)]
            both += [of_glob(glob.lower()) for glob in (theirs, own)]
            yield both
            yield from ([*both, of_glob(glob.lower())] for glob in said)


def _is_upserted(template: _Template, name: str) -> bool:
    return template.spec.tables.policy_for(name).write.is_upsert


def _finding(mine: _Template, other: _Template, name: str) -> Diagnostic:
    where = f"{other.span.file}:{other.span.line}"
    message = f"records may lead `{mine.text}` and `{other.text}` to one table, such as `{name}`, which {where} upserts"
    remedy = f"let no glob of `allow_tables` match `{name}` in one of the files, or write the tables by one pipeline"
    return Diagnostic("FLOE-C462", message, mine.span, path=mine.path, remedy=remedy)
