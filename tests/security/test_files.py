"""What a hostile pipeline file or template wanted, and what it got."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table import TableProperties

from framework.adapters.project.files import real_world
from framework.config.load import load_pipelines
from framework.config.rules.permitted import (
    PROPERTIES,
    PROPERTY_PREFIXES,
    is_below,
    is_property_allowed,
    never_a_property,
)
from framework.config.templates.sandbox import TEXT_METHODS
from tests.unit.config.in_memory import PIPELINE, codes, load, over


@pytest.mark.parametrize(
    "key",
    [
        "py-io-impl", "PY-IO-IMPL", "write.py-location-provider.impl", "write.location-provider.impl", "io-impl",
        "s3.retry-strategy-impl", "s3.endpoint", "s3.proxy-uri", "s3.signer.uri", "adls.connection-string", "gcs.service.host",
        "hdfs.host", "header.Authorization", "rest.sigv4-enabled", "oauth2-server-uri", "token", "uri", "warehouse",
        "write.data.path", "write.metadata.path", "write.object-storage.path", "client.region", "hf.endpoint",
    ],
)  # fmt: skip
def test_a_property_that_imports_or_leads_elsewhere_is_refused_whatever_the_target_allows(key: str) -> None:
    """It wanted code to be imported or data to go to its own host; it gets FLOE-C445, or the schema's own refusal."""
    found = codes(load(f"tables: {{defaults: {{create: {{properties: {{{key}: x}}}}}}}}"))
    assert [code for code in found if code != "FLOE-C311"] == ["FLOE-C445"]  # some are secrets besides
    assert not is_property_allowed(key, more=("*",))


def test_every_property_that_pyiceberg_knows_is_judged() -> None:
    """A new version of PyIceberg that reads more properties fails here until each is judged."""
    offered = {
        value
        for name, value in vars(TableProperties).items()
        if isinstance(value, str) and not name.startswith("_") and "." in value and value == value.lower()
    }
    judged = {key for key in offered if key in PROPERTIES or never_a_property(key)}
    assert offered - judged <= {prefix.rstrip(".") for prefix in PROPERTY_PREFIXES}


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake-evil/a", "s3://other/a", "file:///lake/a", "s3://lake/../other/a", "s3://lake/%2e%2e/a", "s3://lake//a",
        "http://host/x.pkl", "s3://lake@host/a", "s3://lake", "/lake/a", "s3://lake/a?x=1", "s3://lake\\@host/a", "gs://lake/a",
    ],
)  # fmt: skip
def test_a_location_outside_the_targets_is_refused(location: str) -> None:
    """It wanted files where it may not write; FLOE-C446 or an earlier refusal."""
    assert not is_below(location, ("s3://lake/",))


def test_a_location_below_the_targets_is_taken() -> None:
    """The same store under its other name, and patterns, are below."""
    assert is_below("s3a://lake/{namespace}/{table}", ("s3://lake",))
    assert is_below("file:///data/lake/t", ("/data/lake",))
    assert is_below("file:///home/a b/100%/x", ("file:///home/a b/100%/",))
    assert not is_below("file:///home/a b/%2e%2e/x", ("file:///home/a b",))
    assert not is_below("s3://lake/a", ("/", "", "s3://"))


def test_the_environment_is_closed_unless_the_target_names_a_variable() -> None:
    """It wanted a secret of the environment in its plan; FLOE-C314, and the value is in no message."""
    result = load(
        'source: {kafka: {topics: ["${env:AWS_SECRET_ACCESS_KEY}"]}}', env={"AWS_SECRET_ACCESS_KEY": "hunter2"}
    )
    assert codes(result) == ["FLOE-C314"]
    assert "hunter2" not in repr(result.diagnostics)


def _validate(folder: Path, text: str) -> list[str]:
    (folder / "p").mkdir(exist_ok=True)
    (folder / "p" / "a.yaml").write_text(text)
    return codes(load_pipelines([folder / "p" / "a.yaml"], None, real_world(offline=True))[0])


@pytest.mark.parametrize(
    "line",
    ['#%+ include "../secret"', '#% include ".." ~ "/secret"', '#% include ("../secret" if true else "x")',
     '#% include "link"', '#% include ["../secret"]'],
)  # fmt: skip
def test_an_include_cannot_leave_its_folder(tmp_path: Path, line: str) -> None:
    """It wanted another file's text; however the name is made, the file is not read."""
    (tmp_path / "secret").write_text("x-stolen: hunter2\n")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "link").symlink_to(tmp_path / "secret")
    assert set(_validate(tmp_path, f"{PIPELINE}{line}\n")) & {"FLOE-C603", "FLOE-C605", "FLOE-C601"}


@pytest.mark.parametrize("name", ["/proc/self/environ", "/dev/zero", "../outside", "link", "pipe"])
def test_a_schema_file_is_a_plain_file_near_the_pipeline(tmp_path: Path, name: str) -> None:
    """It wanted the process's environment in the plan, or its memory or time; FLOE-C434 at once."""
    import os

    (tmp_path / "outside").write_text("{}")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "link").symlink_to("/proc/self/environ")
    os.mkfifo(tmp_path / "p" / "pipe")
    source = f"source: {{kafka: {{topics: [a]}}, format: {{type: avro, schema_file: {name}}}}}"
    assert "FLOE-C434" in _validate(tmp_path, over(PIPELINE, source))


@pytest.mark.parametrize("text", ["[" * 30_000, "{a: " * 30_000, "- " * 30_000, "? " * 30_000])
def test_nesting_does_not_end_the_process(text: str) -> None:
    """It wanted libyaml to run out of stack; FLOE-C107, or a syntax error."""
    from framework.config.text import SourceText
    from framework.config.tree import parse

    assert {finding.code for finding in parse(SourceText("a", text))[1]} <= {"FLOE-C107", "FLOE-C103"}


@pytest.mark.parametrize(
    "text",
    [
        '"{{ "a".ljust(2*10**9) }}"', "\"{{ 'a'.ljust(2000000000) }}\"", "\"{{ 'a'['rjust'](2000000000) }}\"",
        "\"{{ '{:>2000000000}'.format(1) }}\"", "\"{{ '%2000000000d' % 1 }}\"", "\"{{ 'a' * 2000000000 }}\"",
        "\"{{ [1]|batch(2000000000, 0)|list|length }}\"", "\"{{ 1|round(1000000000, 'ceil') }}\"",
        "\"{{ (1).to_bytes(2000000000) }}\"",
    ],
)  # fmt: skip
def test_an_expression_cannot_fill_the_memory(text: str) -> None:
    """It wanted two gigabytes; it is refused before anything is made."""
    assert set(codes(load(f"x-a: {text}"))) & {"FLOE-C601", "FLOE-C602", "FLOE-C610", "FLOE-C607", "FLOE-C103"}


def test_doubling_ends() -> None:
    """It wanted a text that doubles line by line; FLOE-C610."""
    lines = "#% set a = 'aaaaaaaa'\n" + "#% set a = a ~ a\n" * 60
    assert codes(load(lines + 'x-a: "{{ a|length }}"')) == ["FLOE-C610"]


def test_loops_and_macros_end() -> None:
    """It wanted time without any output; FLOE-C610."""
    loop = "#% for a in range(999)\n#% for b in range(50)\n#% for c in range(12)\n#% endfor\n#% endfor\n#% endfor\n"
    assert codes(load(loop)) == ["FLOE-C610"]


def test_every_method_of_text_is_judged() -> None:
    """A new version of Python whose text has more methods fails here until each is judged."""
    refused = {
        "casefold", "center", "encode", "expandtabs", "format", "format_map", "isprintable", "join", "ljust", "maketrans",
        "replace", "rjust", "translate", "zfill",
    }  # fmt: skip
    assert {name for name in dir(str) if not name.startswith("_")} == TEXT_METHODS | refused


def test_everything_that_jinja_offers_is_judged() -> None:
    """A new version of Jinja with further filters, tests, globals or statements fails here until each is judged."""
    from jinja2 import defaults, parser

    from framework.config.templates.sandbox import FILTERS, Sandbox

    refused = {
        "attr", "center", "count", "d", "e", "escape", "filesizeformat", "forceescape", "format", "groupby", "indent", "pprint",
        "random", "safe", "slice", "striptags", "tojson", "truncate", "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr",
    }  # fmt: skip
    assert set(defaults.DEFAULT_FILTERS) == FILTERS | refused
    # They say yes or no of a value, and make none.
    assert set(defaults.DEFAULT_TESTS) == {
        "!=", "<", "<=", "==", ">", ">=", "boolean", "callable", "defined", "divisibleby", "eq", "equalto", "escaped", "even",
        "false", "filter", "float", "ge", "greaterthan", "gt", "in", "integer", "iterable", "le", "lessthan", "lower", "lt",
        "mapping", "ne", "none", "number", "odd", "sameas", "sequence", "string", "test", "true", "undefined", "upper",
    }  # fmt: skip
    assert set(defaults.DEFAULT_NAMESPACE) == {"cycler", "dict", "joiner", "lipsum", "namespace", "range"}
    assert Sandbox(None, lambda name, _: name).globals.keys() == {"range"}  # type: ignore[arg-type]
    # What a template may state; files are reached by `include`, `import`, `from` and `extends`, which stay in their
    # folder.
    assert parser._statement_keywords == {
        "for", "if", "block", "extends", "print", "macro", "include", "from", "import", "set", "with", "autoescape",
    }  # fmt: skip


@pytest.mark.parametrize(
    "line", ['#% import "../secret" as x', '#% from "../secret" import x', '#% extends "../secret"']
)
def test_no_statement_reaches_a_file_outside(tmp_path: Path, line: str) -> None:
    """It wanted another file's text by a sibling of `include`; the file is not read."""
    (tmp_path / "secret").write_text("x-stolen: hunter2\n")
    (tmp_path / "p").mkdir()
    assert set(_validate(tmp_path, f"{PIPELINE}{line}\n")) & {"FLOE-C603", "FLOE-C605", "FLOE-C601", "FLOE-C602"}
