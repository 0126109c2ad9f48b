"""A right file becomes the spec that it says."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.load import load_pipelines
from framework.config.spec import (
    ErrorPolicy,
    EvolveMode,
    FieldHint,
    NameCase,
    PartitionFieldSpec,
    PipelineSpec,
    RouteCondition,
    RouteMode,
    SecretRef,
    TablePolicy,
)
from framework.config.units import (
    COLUMN,
    duration_ms,
    partition_field,
    partition_text,
    plain_partition,
    quoted,
    size_bytes,
    sort_field,
    sort_text,
    unquoted,
)
from framework.config.values.owners import OwningTeam
from tests.unit.config.in_memory import TARGET, codes, load, over, world


def spec_of(fragment: str, **options: object) -> PipelineSpec:
    result = load(fragment, **options)  # type: ignore[arg-type]
    assert result.diagnostics == ()
    assert result.pipeline is not None
    return result.pipeline.spec


def test_what_is_not_written_is_the_default() -> None:
    """The smallest file has every default of the spec."""
    spec = spec_of("")

    assert spec.tables.defaults == TablePolicy()
    assert spec.routes.mode is RouteMode.FIRST_MATCH
    assert spec.errors.policy is ErrorPolicy.DEAD_LETTER
    assert spec.source.kafka.connection == "main"
    assert spec.control_topic == "control-iceberg"
    assert spec.trigger_every_ms is None


def test_everything_that_is_written_arrives() -> None:
    """Each key of a file is found in the spec, with units made plain."""
    spec = spec_of(
        """\
metadata: {name: pizzas, owner: team-orders, description: Orders.}
source:
  kafka: {connection: main, topic_pattern: "^orders", starting_offsets: latest}
  schema:
    at: {type: timestamptz, format: "%Y-%m-%d", zone: UTC, required: true}
    price: "decimal(10,2)"
  metadata_columns: [topic, timestamp]
transform: {sql: SELECT * FROM source WHERE price > 0}
routes:
  mode: all_match
  rules:
    - {when: {field: type, equals: 5}, table: rpc.five}
    - {when: {topic: "^vip"}, table: "vip.p_{region}"}
  unrouted: drop
  allow_tables: ["rpc.*", "vip.*"]
  max_new_tables_per_hour: 7
tables:
  defaults:
    create: {partition_by: ["day(at)", "bucket(price, 16)"], properties: {write.a: 5, write.b: true}}
    commit: {interval: 90s, max_bytes: 1GiB, max_rows: 5}
  overrides:
    - {match: "vip.*", commit: {interval: 500ms}, evolve: {columns: freeze}, case: sensitive}
errors: {policy: fail, max_ratio: 0.5, max_count: 3}
commit: {control_topic: shared}
trigger: {every: 2m}
"""
    )

    assert spec.owners.pipeline == OwningTeam("team-orders")
    assert spec.source.kafka.topic_pattern == "^orders"
    assert spec.source.hints == (
        FieldHint("at", "timestamptz", format="%Y-%m-%d", zone="UTC", required=True),
        FieldHint("price", "decimal(10, 2)"),
    )
    assert spec.source.metadata_columns == ("topic", "timestamp")
    assert spec.routes.rules[0].when == RouteCondition(field="type", equals=5)
    assert spec.routes.max_new_tables_per_hour == 7
    defaults = spec.tables.defaults
    assert defaults.create.partition_by == (PartitionFieldSpec("at", "day"), PartitionFieldSpec("price", "bucket", 16))
    assert defaults.create.properties == (("write.a", "5"), ("write.b", "true"))
    assert (defaults.commit.interval_ms, defaults.commit.max_bytes, defaults.commit.max_rows) == (90_000, 1 << 30, 5)
    override = spec.tables.policy_for("vip.p_eu")
    assert (override.commit.interval_ms, override.commit.max_bytes) == (500, 1 << 30)
    assert (override.evolve.columns, override.case) == (EvolveMode.FREEZE, NameCase.SENSITIVE)
    assert override.create == defaults.create
    assert spec.errors.policy is ErrorPolicy.FAIL
    assert spec.trigger_every_ms == 120_000


def test_secrets_stay_references() -> None:
    """A secret of a target is held as its name and printed as its reference."""
    target = over(
        TARGET,
        'connections:\n  kafka: {main: {bootstrap.servers: "b:1", sasl.password: "${secret:env:PASSWORD}"}}\n'
        '  catalog: {default: {type: rest, uri: "http://c", token: "${secret:file:/run/t}"}}',
    )

    result = load(files={"targets/local.yaml": target}, env={"PASSWORD": "hunter2"})

    assert result.pipeline is not None
    password = result.pipeline.target.kafka["main"]["sasl.password"]
    assert password == SecretRef("env", "PASSWORD")
    assert str(password) == "${secret:env:PASSWORD}"
    assert "hunter2" not in repr(result.pipeline)


def test_variables_have_a_precedence() -> None:
    """`--var` is above the target, the target above the default."""
    fragment = 'variables: {topic: default}\nsource: {kafka: {topics: ["${var.topic}"]}}'
    target = {"targets/local.yaml": TARGET + "variables: {topic: target}\n"}

    assert spec_of(fragment).source.kafka.topics == ("default",)
    assert spec_of(fragment, files=target).source.kafka.topics == ("target",)
    assert spec_of(fragment, files=target, variables={"topic": "given"}).source.kafka.topics == ("given",)


def test_a_variable_keeps_its_type() -> None:
    """A number given as text becomes a number where one is declared, and a list a list."""
    fragment = (
        "variables: {rows: {type: integer, default: 1}, topics: {type: list, default: [a]}}\n"
        'source: {kafka: {topics: "${var.topics}"}}\n'
        'tables: {defaults: {commit: {max_rows: "${var.rows}"}}}'
    )

    spec = spec_of(fragment, variables={"rows": "25", "topics": "a,b"})

    assert spec.tables.defaults.commit.max_rows == 25
    assert spec.source.kafka.topics == ("a", "b")


def test_a_value_cannot_change_the_structure() -> None:
    """Whatever a variable holds, it stays the one value that it is."""
    text = 'a"]}\nroutes: {rules: []} #'

    result = load('variables: {a: x}\nmetadata: {name: orders, description: "${var.a}"}', variables={"a": text})

    assert result.pipeline is not None
    assert result.pipeline.spec.description == text


def test_environment_values_fit_where_numbers_are_wanted() -> None:
    """`${env:...}` gives text, and the schema says that a number is meant."""
    spec = spec_of('tables: {defaults: {commit: {max_rows: "${env:ROWS}"}}}', env={"ROWS": "12"})

    assert spec.tables.defaults.commit.max_rows == 12


def test_set_replaces_one_value() -> None:
    """`--set` reaches any place, also one that the file leaves out."""
    spec = spec_of("", sets={"tables.defaults.commit.interval": "10s", "routes.rules[0].table": "shop.b"})

    assert spec.tables.defaults.commit.interval_ms == 10_000
    assert spec.routes.rules[0].table == "shop.b"


def test_target_overrides_lie_over_pipelines_by_name() -> None:
    """A target's override reaches the pipelines whose name it matches, also when the name holds a variable."""
    target = TARGET + 'overrides:\n  - {match: "orders-*", tables: {defaults: {commit: {interval: 10s}}}}\n'
    fragment = 'variables: {region: eu}\nmetadata: {name: "orders-${var.region}"}'

    assert spec_of(fragment, files={"targets/local.yaml": target}).tables.defaults.commit.interval_ms == 10_000
    assert spec_of("", files={"targets/local.yaml": target}).tables.defaults.commit.interval_ms == 180_000


def test_offline_files_without_the_run_s_values_are_right() -> None:
    """In CI a missing environment variable is a warning, and there is no pipeline to run."""
    result = load('source: {kafka: {topics: ["${env:TOPIC}"]}}', offline=True)

    assert codes(result) == ["FLOE-C305"]
    assert result.ok
    assert result.pipeline is None


def test_the_local_target_needs_the_local_stack() -> None:
    """Without a file for it, `local` is the embedded stack, and says how to start it when it is down."""
    files = {"base.yaml": load().files.sources["base.yaml"].text}

    result = load_pipelines(["base.yaml"], None, world(files))[0]

    assert set(codes(result)) == {"FLOE-C306"}
    assert "floe local up" in str(result.diagnostics[0].remedy)


def test_a_target_is_found_above_the_pipeline() -> None:
    """Targets lie beside a pipeline file, in a folder above it, or in `pipelines/`."""
    text = load().files.sources["base.yaml"].text
    for place in ("pipelines/targets/local.yaml", "pipelines/team/targets/local.yaml", "targets/local.yaml"):
        files = {"pipelines/team/a.yaml": text, place: TARGET}

        assert load_pipelines(["pipelines/team/a.yaml"], None, world(files))[0].ok


def test_one_wrong_file_hides_no_other() -> None:
    """Each file has its own findings, and right files load beside wrong ones."""
    text = load().files.sources["base.yaml"].text
    files = {"a.yaml": text.replace("rules", "rulse"), "b.yaml": text, "targets/local.yaml": TARGET}

    wrong, missing, right = load_pipelines(["a.yaml", "none.yaml", "b.yaml"], None, world(files))

    assert codes(wrong) == ["FLOE-C201"]
    assert codes(missing) == ["FLOE-C101"]
    assert right.pipeline is not None


def test_units() -> None:
    """Durations and sizes are exact, and other text is none."""
    assert [duration_ms(text) for text in ("500ms", "10s", "3m", "1h", "2d")] == [
        500,
        10_000,
        180_000,
        3_600_000,
        172_800_000,
    ]
    assert [duration_ms(text) for text in ("0s", "1.5m", "3", "m", "3 m", "-1s", "1s\n")] == [None] * 7
    assert [size_bytes(text) for text in ("1", "1B", "1kB", "1KiB", "2MiB", "3GB", 7)] == [
        1,
        1,
        1000,
        1024,
        2097152,
        3 * 10**9,
        7,
    ]
    assert [size_bytes(text) for text in ("1mb", "1 MiB", "0", "x")] == [None] * 4


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("region", "region"),
        ("identity(region)", "region"),
        ("day( at )", "day(at)"),
        ("bucket(16, id)", "bucket(16, id)"),
        ("bucket(id, 16)", "bucket(16, id)"),
        ("truncate( 4 ,a.b )", "truncate(4, a.b)"),
    ],
)
def test_partition_fields_have_one_canonical_text(text: str, canonical: str) -> None:
    """`bucket(id, 16)` and `bucket(16, id)` are one field, and its canonical text is read back as itself."""
    field = partition_field(text)

    assert field is not None
    assert partition_text(field) == canonical
    assert partition_field(canonical) == field


def test_pipelines_of_the_project_are_right() -> None:
    """Every pipeline file that floe ships is right under the target that it ships."""
    folder = Path(__file__).parents[3] / "pipelines"
    files = {str(path): path.read_text(encoding="utf-8") for path in folder.rglob("*.yaml")}
    paths = sorted(str(path) for path in folder.glob("*.yaml"))

    results = load_pipelines(paths, None, world(files, offline=True))

    assert [finding for result in results for finding in result.diagnostics] == []


@given(
    st.lists(
        st.text(st.characters(exclude_characters=".`{}\ufffe\uffff", exclude_categories=("Cc", "Cs")), min_size=1),
        min_size=1,
        max_size=3,
    )
)
def test_every_name_has_one_form_in_files(names: list[str]) -> None:
    """A name of any characters but dots, braces and backquotes can be said, in one way, wherever a name stands."""
    path = ".".join(names)
    text = quoted(path)
    assert text is not None
    assert unquoted(text) == path
    assert quoted(text) == text
    assert re.fullmatch(COLUMN, text)
    assert (text == path) == (re.fullmatch(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*", path, re.ASCII) is not None)
    for written in (text, f"day({text})", f"bucket(4, {text})", f"truncate({text}, 4)"):
        field = partition_field(written)
        assert field is not None
        plain = plain_partition(field)
        assert plain.column == path
        assert partition_field(partition_text(plain)) == field
        order = sort_field(f"{written} desc nulls first")
        assert order is not None
        assert sort_field(sort_text(order)) == order


@given(st.text(max_size=12))
def test_what_cannot_be_said_has_no_form(name: str) -> None:
    """Nothing is the form of two names, and what is no name has none."""
    text = quoted(name)
    if text is None:
        assert (
            set(name) & set("`{}\ufffe\uffff")
            or any(unicodedata.category(c) == "Cc" for c in name)
            or "" in name.split(".")
        )
    else:
        assert unquoted(text) == unquoted(name)
