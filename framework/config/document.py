"""Reads one file into a tree, rendering it first if it is a template, and maps findings back to the original text.

In: a path, the environment as values, and the values that templates may use. Out: a tree with positions in the rendered
text, and `Files`, which turns findings about it into findings about the files that a person wrote.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Mapped
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from framework.config.names.file_kinds import YAML_ENDINGS
from framework.config.rules.permitted import inside
from framework.config.templates.given import GivenValues
from framework.config.templates.render import Rendered, is_template, render
from framework.config.text import SourceText, start_of
from framework.config.tree import Mapping, Node, parse
from framework.config.world import World
from framework.diagnose.diagnostic import Diagnostic, Place, Span
from framework.diagnose.secrets import masked_line, redacted
from framework.diagnose.shown import shown
from framework.diagnose.suggest import nearest

_STEPS_UP = 6
_HEAD_KEYS = frozenset({"apiVersion", "kind", "metadata", "variables", "parameters", "template", "tests"})


@dataclass
class Files:
    """The texts that took part in loading, by name, the templates among them, and the parameters that they were given."""

    sources: dict[str, SourceText] = field(default_factory=dict)
    rendered: dict[str, Rendered] = field(default_factory=dict)
    given: GivenValues | None = None
    included: dict[str, dict[str, str]] = field(default_factory=dict)  # what each template includes, by name

    def add(self, source: SourceText | None) -> None:
        if source is not None:
            self.sources[source.file] = source

    def locate(self, span: Span) -> Span:
        """The place that a person wrote for a place in a rendered text."""
        template = self.rendered.get(span.file)
        if template is None:
            return span
        if template.origin is None:
            return start_of(span.file)
        for source in template.origin.sources:
            self.add(source)
        return template.origin.locate(span)

    def finish(self, findings: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Findings in file order at the places that people wrote, each once, with the line that it is about."""
        unique: dict[tuple[object, ...], Diagnostic] = {}
        for finding in findings:
            placed = _without_secrets(self._placed(finding))
            key = (placed.code, placed.span, placed.message)
            known = unique.get(key)
            # A line inside a loop is found once for each turn; a file that is checked twice is not worth a word.
            again = finding.span is not None and finding.span.file in self.rendered
            unique[key] = replace(known, times=known.times + 1) if known and again else known or placed
        return tuple(sorted(unique.values(), key=lambda finding: finding.order))

    def _placed(self, finding: Diagnostic) -> Diagnostic:
        if finding.span is None or finding.excerpt is not None:
            return finding
        span = self.locate(finding.span)
        source = self.sources.get(span.file)
        cause = self.given.cause(source, span) if self.given and source else None
        if cause is None:
            return replace(finding, span=span, excerpt=self._line(span))
        return replace(finding, span=cause, excerpt=self._line(cause), template=Place(span, self._line(span)))

    def _line(self, span: Span) -> str | None:
        source = self.sources.get(span.file)
        return _masked(source.line(span.line)) if source else None


@lru_cache(maxsize=4)
def _masked(line: str) -> str:
    """Many findings of one long line, as those of a file without line ends, take the time of one."""
    return masked_line(line)


def _without_secrets(finding: Diagnostic) -> Diagnostic:
    """No sentence repeats a secret that stands in a file, in whatever kind of file it is."""
    hidden = [redacted(text) if text else text for text in (finding.hint, finding.remedy)]
    return replace(finding, message=shown(redacted(finding.message)), hint=hidden[0], remedy=hidden[1])


@dataclass(frozen=True)
class Unreadable:
    """Why a file's text cannot be had; `absent` when there is no such file."""

    diagnostic: Diagnostic
    absent: bool


def read_source(path: Path, world: World) -> tuple[SourceText | None, Unreadable | None]:
    """The text of a file, or why it cannot be had."""
    place = start_of(str(path))
    try:
        return SourceText(str(path), world.read_file(path)), None
    except (FileNotFoundError, NotADirectoryError):
        hint = _meant_file(path, world)
        finding = Diagnostic("FLOE-C101", "there is no such file", place, hint=hint, remedy="check the path")
        return None, Unreadable(finding, True)
    except UnicodeDecodeError as error:
        message = f"the file is not UTF-8 text: byte {error.start + 1} is not"
        return None, Unreadable(Diagnostic("FLOE-C102", message, place, remedy="save it as UTF-8"), False)
    except OSError as error:
        message = f"the file cannot be read: {error.strerror or error}"
        remedy = "check the path and its permissions"
        return None, Unreadable(Diagnostic("FLOE-C101", message, place, remedy=remedy), False)


def _meant_file(path: Path, world: World) -> str | None:
    """The hint for a path of which a part is mistyped: the first folder that is not there, or the file."""
    parts = path.parts
    for end in range(len(parts)):
        folder, name = Path(*parts[:end]), parts[end]
        names = world.names_in(folder)
        if name not in names:
            near = nearest(name, names)
            return f"did you mean `{Path(folder, near, *parts[end + 1 :])}`?" if near else None
    return None


def names_above(folder: Path, places: Iterable[str], world: World) -> list[str]:
    """The names of YAML files in folders of these names, here and above, without their endings."""
    found = (name for above in upwards(folder) for place in places for name in world.names_in(above / place))
    return [name.rpartition(".")[0] for name in found if name.endswith(YAML_ENDINGS)]


def upwards(folder: Path) -> tuple[Path, ...]:
    """A folder and those above it, also above the current one when the path is relative."""
    above = () if folder.is_absolute() else tuple(Path(*[".."] * steps) for steps in range(1, _STEPS_UP))
    return (folder, *folder.parents, *above)


@dataclass(frozen=True)
class Head:
    """A file before it is rendered: its tree as far as it can be read, for what it declares."""

    source: SourceText
    tree: Mapping | None
    findings: tuple[Diagnostic, ...]
    templated: bool


@lru_cache(maxsize=32)
def read_head(source: SourceText) -> Head:
    """Parses a file as it was written. The tree is None when nothing more can be done with the file.

    A shared template is read again for each file that uses it, so the last ones are kept.
    """
    templated = is_template(source.text)
    block = source.text.find("{%")
    if block >= 0:
        message = "`{% %}` is not YAML before it is rendered"
        remedy = "write the statement on a line of its own that begins with `#%`"
        return Head(source, None, (Diagnostic("FLOE-C606", message, source.at_offset(block, 2), remedy=remedy),), True)
    tree, findings = parse(source, only=_HEAD_KEYS if templated else None)
    if tree is not None and not isinstance(tree, Mapping):
        findings.append(not_a_mapping(tree))
        tree = None
    if templated:
        findings = [_quoted(finding, source) for finding in findings]
    return Head(source, tree, tuple(findings), templated)


def read_tree(
    head: Head, context: Mapped[str, object], world: World, files: Files
) -> tuple[Mapping | None, list[Diagnostic]]:
    """The tree of a file after rendering; `head` itself when it is no template."""
    if not head.templated or head.tree is None or head.findings:
        return head.tree, list(head.findings)
    included = files.included.setdefault(head.source.file, {})
    rendered, findings = render(head.source, context, _reader_below(head.source.file, world, included))
    for finding in findings:
        if finding.span is not None and finding.span.file not in files.sources:
            files.add(read_source(Path(finding.span.file), world)[0])
    if rendered is None:
        return None, findings
    tree, found = parse(rendered.text)
    files.rendered[head.source.file] = rendered
    if tree is not None and not isinstance(tree, Mapping):
        found.append(not_a_mapping(tree))
        tree = None
    return tree, findings + found


def _reader_below(file: str, world: World, included: dict[str, str]) -> Callable[[str], str]:
    """Reads what a template includes, and notes it. Every way to a name ends here, also one that is put together while
    rendering."""

    def read(name: str) -> str:
        folder = str(world.real_path(Path(file).parent))
        if not inside(folder, str(world.real_path(Path(name)))):
            raise PermissionError(errno.EACCES, "it is outside the folder of the first file")
        included[posixpath.relpath(name, posixpath.dirname(file))] = text = world.read_file(Path(name))
        return text

    return read


def not_a_mapping(tree: Node) -> Diagnostic:
    """The finding for a file that is a list or a single value."""
    return Diagnostic("FLOE-C203", "the file must be a mapping", tree.span, remedy="begin with `apiVersion: floe/v1`")


def _quoted(finding: Diagnostic, source: SourceText) -> Diagnostic:
    """A template must be YAML before it is rendered; the usual reason why it is not is a missing quote."""
    line = source.line(finding.span.line) if finding.span else ""
    if finding.code not in ("FLOE-C103", "FLOE-C106") or ("{{" not in line and "}}" not in line and "#%" not in line):
        return finding
    message = "a template must be YAML before it is rendered, and this line is not"
    return replace(finding, code="FLOE-C607", message=message, remedy='put quotes around expressions: `"{{ ... }}"`')
