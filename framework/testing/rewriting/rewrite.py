"""`--fix` and `--record`: write expectations into a pipeline file from the actual results of its records.

In: a loaded file with its report, or records. Out: the new text, which was loaded and run again
before it is handed out: whatever else the file says is the same, and the tests that were written pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from framework.config.load import LoadResult
from framework.config.text import SourceText
from framework.config.tree import Mapping, Scalar, parse, plain
from framework.config.tree import Sequence as Items
from framework.errors import ConfigError
from framework.testing.recorded import Taken, as_input, checked
from framework.testing.rewriting import expectation
from framework.testing.rewriting.edit import Edit, NodePlaces, apply
from framework.testing.rewriting.emit import block, flow
from framework.testing.suite import FileReport, run_file
from framework.testing.values import Plain

_MOST_COLUMNS = 120  # of a line that a person still reads
Load = Callable[[str], LoadResult]  # the file as it would load with another text
Run = Callable[[LoadResult], FileReport]


@dataclass(frozen=True)
class RewrittenTests:
    """The new text, its report, and the names of the tests that were written."""

    text: str
    report: FileReport
    cases: tuple[str, ...]


def fixed(result: LoadResult, report: FileReport, load: Load, run: Run = run_file) -> RewrittenTests:
    """The file with the expectations of its failing tests as what came.

    Raises:
        ConfigError: FLOE-R402, the places of the tests are not certain; nothing is to be written.
    """
    text = _source_text(result)
    places = NodePlaces(text)
    failing = [case for case in report.cases if not case.passed]
    edits: list[Edit] = []
    for case in failing:
        if case.case.entry.value.span.file != result.file:
            raise _refused(f"the test `{case.case.name}` is not in this file", case.case.span.start)
        edits += expectation.edits(case, places)
    for edit in edits:
        if "${" in text[edit.start : edit.end].replace("$${", ""):
            raise _refused("a value that would change is a reference", edit.span.start)
    names, rewritten = [case.case.name for case in failing], apply(text, edits)
    tidy = tidied(rewritten, names)
    try:
        return _checked(result, tidy, names, load, run)
    except ConfigError:
        if tidy == rewritten:
            raise
        return _checked(result, rewritten, names, load, run)


def tidied(text: str, names: Sequence[str]) -> str:
    """The text with the expectations of these tests over several lines where one line has become too long to read."""
    tree, _ = parse(SourceText("tests", text))
    places, edits = NodePlaces(text), []
    tests = tree.get("tests") if isinstance(tree, Mapping) else None
    for test in tests.items if isinstance(tests, Items) else ():
        entry = test.entry("expect") if isinstance(test, Mapping) and places.is_block(test) else None
        if entry is None or not isinstance(test, Mapping) or places.is_block(entry.value):
            continue
        start, end, name = places.start(entry.value), places.end(entry.value), test.get("name")
        column, old = entry.key_span.column - 1, text[start:end]
        is_long = "\n" not in old and column + len("expect: ") + len(old) > _MOST_COLUMNS
        if isinstance(name, Scalar) and name.value in names and is_long and "${" not in old and "{{" not in old:
            lines = block(plain(entry.value), column + 2)
            edits.append(Edit(start - 1, end, f"\n{' ' * (column + 2)}{lines}", entry.value.span))
    return apply(text, edits)


def recorded(
    result: LoadResult, records: Sequence[Taken], name: str, load: Load, run: Run = run_file
) -> RewrittenTests:
    """The file with one more test of these records, whose expectation is what came of them.

    Raises:
        ConfigError: FLOE-R402 as above; FLOE-R403, records that make no test, or a pattern leaves their topic open.
    """
    text, spec = _source_text(result), result.spec
    if spec is None or not (spec.source.kafka.topics or all(record.topic for record in records)):
        raise ConfigError(
            "the source has a topic pattern, so the topic of the records is not known",
            code="FLOE-R403",
            place=result.file,
            remedy="record from a topic with `--record-topic`, or write the test by hand, with `topic:` for each record",
        )
    checked(records, name)
    inputs = [as_input(record, spec) for record in records]
    taken = {str(test["name"]) for test in _tests(result)}
    title, number = name, 1
    while title in taken:
        number += 1
        title = f"{name} ({number})"
    first = _with_case(result, text, _case_text(title, inputs, {}))
    draft = run(load(first))
    case = next((one for one in draft.cases if one.case.name == title), None)
    if case is None:
        raise _refused("the file with the new test would not load", result.file)
    second = _with_case(result, text, _case_text(title, inputs, expectation.whole(case.outcome)))
    return _checked(result, second, [title], load, run)


def _source_text(result: LoadResult) -> str:
    source = result.files.sources.get(result.file)
    if source is None or result.file in result.files.rendered:
        raise _refused("the file is a template, so positions in it are not those of its tests", result.file)
    return source.text


def _checked(result: LoadResult, text: str, names: Sequence[str], load: Load, run: Run) -> RewrittenTests:
    """What is about to be written must load, say the same but for the expectations of these tests, and pass."""
    loaded = load(text)
    report = run(loaded)
    passing = {case.case.name for case in report.cases if case.passed}
    before, after = _tests(result), _tests(loaded)
    same = _rest(loaded) == _rest(result) and all(
        _kept(old, names) == _kept(new, names) for old, new in zip(before, after, strict=False)
    )
    if report.is_wrong or not same or len(after) < len(before) or not passing.issuperset(names):
        raise _refused("the actual results cannot be written in place", result.file)
    return RewrittenTests(text, report, tuple(names))


def _rest(result: LoadResult) -> Plain:
    """Everything but the tests."""
    tree = plain(result.tree) if result.tree else {}
    return {key: value for key, value in tree.items() if key != "tests"}


def _kept(test: dict[str, Plain], rewritten: Sequence[str]) -> dict[str, Plain]:
    """What must stay of a test."""
    return {key: value for key, value in test.items() if key != "expect" or test["name"] not in rewritten}


def _tests(result: LoadResult) -> list[dict[str, Plain]]:
    return list(plain(result.tree).get("tests", [])) if result.tree else []


# ---- a new case ----------------------------------------------------------------------------------------------------


def _with_case(result: LoadResult, text: str, case: str) -> str:
    tests = result.tree.entry("tests") if result.tree else None
    if tests is None:
        return f"{text.rstrip()}\n\ntests:\n  {case.replace(chr(10), chr(10) + '  ')}\n"
    places = NodePlaces(text)
    if tests.value.span.file != result.file or not isinstance(tests.value, Items) or not places.is_block(tests.value):
        raise _refused("`tests` is not a list over several lines of this file", tests.key_span.start)
    return apply(text, [places.add_item(tests.value, case)])


def _case_text(name: str, items: Iterable[Plain], expect: Plain) -> str:
    inputs = "".join(f"\n    - {flow(item)}" for item in items)
    expected = f"\n    {block(expect, 4)}" if expect else " {}"
    return f"- name: {flow(name)}\n  input:{inputs}\n  expect:{expected}"


def _refused(message: str, place: str) -> ConfigError:
    remedy = "change the expectation by hand; nothing was written"
    return ConfigError(message, code="FLOE-R402", place=place, remedy=remedy)
