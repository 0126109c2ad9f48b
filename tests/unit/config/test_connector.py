"""A sink of Kafka Connect as a pipeline file: nothing is lost in silence, and what is written is sound."""

from __future__ import annotations

import json
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.cli.main import run_main
from framework.cli.write.import_connector import pipeline_text
from framework.connector.translation.read import read_settings
from framework.connector.translation.target.keys import NAMES, why_not
from framework.connector.translation.translate import import_connector
from framework.errors import ConfigError
from tests.unit.config.in_memory import TARGET, load

CLASS = "org.apache.iceberg.connect.IcebergSinkConnector"
SINK = {"connector.class": CLASS, "topics": "orders", "iceberg.tables": "shop.orders"}
# The sink that changes rows; Apache's passes over the keys for that.
CHANGING = {**SINK, "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector"}
KAFKA = "org.apache.kafka.connect.transforms."
FLAG = st.sampled_from(["true", "false", "TRUE"])
REGEX = st.sampled_from(["a", "a|b", "x{2}", "$", "(", "${a}", "{{x}}", "\\d+"])
TEXT = st.text(max_size=6)
OPTIONAL = {
    "topics.regex": REGEX,
    "iceberg.tables": st.sampled_from(["shop.a,shop.b", "shop.a", "a", "", "x.y.z, shop.a"]),
    "iceberg.tables.route-field": st.sampled_from(["type", "a.b", "", "1"]),
    "iceberg.table.shop.a.route-regex": REGEX,
    "iceberg.table.shop.b.commit-branch": TEXT,
    "iceberg.table.shop.a.partition-by": st.sampled_from(
        ["day(x)", "days(x),y", "bucket(a,4)", "truncate(a, 3)", "zip(a)", ""]
    ),
    "iceberg.tables.default-commit-branch": TEXT,
    "iceberg.tables.auto-create-enabled": FLAG,
    "iceberg.tables.auto-create-props.format-version": st.sampled_from(["1", "2", "3"]),
    "iceberg.tables.auto-create-props.a": TEXT,
    "iceberg.tables.write-props.write.format.default": st.sampled_from(["parquet", "orc"]),
    "iceberg.tables.evolve-schema-enabled": FLAG,
    "iceberg.tables.schema-case-insensitive": FLAG,
    "iceberg.tables.dynamic-enabled": FLAG,
    "iceberg.tables.upsert-mode-enabled": FLAG,
    "iceberg.tables.cdc-field": st.sampled_from(["", "op", "_cdc.op", "1"]),
    "iceberg.tables.default-id-columns": st.sampled_from(["", "id", "id, id", "id,a.b", "ID,id"]),
    "iceberg.table.shop.a.id-columns": st.sampled_from(["", "key", "x y"]),
    "iceberg.control.topic": TEXT,
    "iceberg.control.commit.interval-ms": st.sampled_from(["1", "1500", "60000", "x", "0", "7200000"]),
    "errors.tolerance": st.sampled_from(["all", "none"]),
    "errors.deadletterqueue.topic.name": TEXT,
    "iceberg.catalog.uri": TEXT,
    "iceberg.kafka.security.protocol": TEXT,
    "something.else": TEXT,
}


CASES = Path(__file__).parents[2] / "acceptance" / "cases"
# What the documentation of the sink has, and where it is kept: each configuration that it shows, and its table of
# options.
SHOWN = {
    "a REST catalog, one table": "import-connector/one-table",
    "static routing": "import-connector/static-routing",
    "dynamic routing": "import-connector/dynamic-routing",
    "Hive": "import-connector/catalog-hive",
    "Glue": "import-connector/catalog-glue",
    "Nessie": "import-connector/catalog-nessie",
    "BigQuery": "import-connector/catalog-bigquery",
    "ADLS": "import-connector/catalog-adls",
    "GCS": "import-connector/catalog-gcs",
}
DOCUMENTED = [
    "iceberg.tables",
    "iceberg.tables.dynamic-enabled",
    "iceberg.tables.route-field",
    "iceberg.tables.default-commit-branch",
    "iceberg.tables.default-id-columns",
    "iceberg.tables.default-partition-by",
    "iceberg.tables.auto-create-enabled",
    "iceberg.tables.evolve-schema-enabled",
    "iceberg.tables.schema-force-optional",
    "iceberg.tables.schema-case-insensitive",
    "iceberg.tables.replace-null-with-default",
    "iceberg.tables.auto-create-props.*",
    "iceberg.tables.write-props.*",
    "iceberg.table.*.commit-branch",
    "iceberg.table.*.id-columns",
    "iceberg.table.*.partition-by",
    "iceberg.table.*.route-regex",
    "iceberg.control.topic",
    "iceberg.control.group-id-prefix",
    "iceberg.control.commit.interval-ms",
    "iceberg.control.commit.timeout-ms",
    "iceberg.control.commit.threads",
    "iceberg.control.commit.max-consecutive-failures",
    "iceberg.coordinator.transactional.prefix",
    "iceberg.catalog",
    "iceberg.catalog.*",
    "iceberg.hadoop-conf-dir",
    "iceberg.hadoop.*",
    "iceberg.kafka.*",
]


@pytest.mark.parametrize("shown", SHOWN)
def test_every_documented_configuration_is_taken(shown: str) -> None:
    """Each configuration that the sink's documentation shows becomes a pipeline file, which is kept and reviewed."""
    output = (CASES / SHOWN[shown] / "output.txt").read_text(encoding="utf-8")
    assert "exit code: 0" in output
    assert "kind: Pipeline" in output


def test_every_documented_option_is_taken() -> None:
    """Each option of the sink's documentation is in a kept configuration, and known: mapped, refused, or named with a
    reason."""
    kept = [path for path in CASES.glob("import-connector/*/*") if path.suffix in (".json", ".properties")]
    seen: set[str] = set()
    for path in kept:
        with suppress(ConfigError):
            seen |= set(read_settings(path.read_text(encoding="utf-8"), path.name)[1])
    assert [option for option in DOCUMENTED if not any(fnmatchcase(key, option) for key in seen)] == []
    for option in DOCUMENTED:
        assert option in NAMES or why_not(option.replace("*", "x")) is not None


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"name": "one", "config": SINK}),
        json.dumps({**SINK, "name": "one"}),
        "\n".join(f"{key}={value}" for key, value in {**SINK, "name": "one"}.items()),
        "! a comment\nname: one\n" + "\n".join(f"{key} : \\\n   {value}" for key, value in SINK.items()),
    ],
)
def test_every_form_of_configuration_is_read(text: str) -> None:
    """JSON for Connect's two addresses and properties files say the same."""
    name, found = read_settings(text, "sink")

    assert name == "one"
    assert {key: found[key] for key in SINK} == SINK


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        (r"a\:b\ c\=d = x\u00e9\t\"y\"", "a:b c=d", 'x\u00e9\t"y"'),
        ("a=1,\\\n    2,\\\r\n\t3", "a", "1,2,3"),
        ("a=b\\\\\nc=d", "a", "b\\"),
        ("  a   b = c  ", "a", "b = c"),
        ("a", "a", ""),
        ("a=1\na=2", "a", "2"),
        ("# a=1\\\na=2", "a", "2"),
        (r"a=\uD83D\uDE00", "a", "\U0001f600"),
    ],
)
def test_properties_are_those_of_java(line: str, key: str, value: str) -> None:
    """Escapes, continued lines, blanks and comments mean in a properties file what `java.util.Properties` reads."""
    settings = "\n".join(f"{each}={SINK[each]}" for each in SINK)
    assert read_settings(f"{settings}\n{line}\n", "sink")[1][key] == value


def test_properties_with_a_broken_escape_are_refused() -> None:
    """A `\\u` without four digits is refused, as by Java."""
    with pytest.raises(ConfigError, match="no properties of Java's") as raised:
        read_settings("connector.class=x\na=\\u12", "sink.properties")
    assert raised.value.code == "FLOE-R404"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.fixed_dictionaries({}, optional=OPTIONAL))
def test_what_is_written_is_valid_or_refused_by_name(tmp_path: Path, more: dict[str, str]) -> None:
    """Whatever a sink says, the pipeline file passes `floe validate`, or none is written."""
    (tmp_path / "targets").mkdir(exist_ok=True)
    (tmp_path / "targets" / "local.yaml").write_text(TARGET, encoding="utf-8")
    sink, pipeline = tmp_path / "sink.json", tmp_path / "pipeline.yaml"
    sink.write_text(json.dumps({**SINK, **more}), encoding="utf-8")
    pipeline.unlink(missing_ok=True)

    if run_main(["import-connector", str(sink), "-o", str(pipeline), "--tables", "shop.a,shop.c"]) == 0:
        assert run_main(["validate", str(pipeline)]) == 0
    else:
        assert not pipeline.exists()


@given(st.sets(st.sampled_from(sorted(OPTIONAL)[1:])))
def test_every_key_has_a_home_or_a_reason(keys: set[str]) -> None:
    """Each key of a sink is in the pipeline file, in the target, or named with the reason why it is in neither; one that
    nobody knows is refused, or left to do."""
    extra = {
        key: "all" if key == "errors.tolerance" else "true"
        for key in keys
        if not key.startswith(("iceberg.table", "iceberg.control", "topics"))
    }
    unknown = {"a.b": "c", "iceberg.unknown": "d", "transforms": "x", "transforms.x.type": "com.example.Mask"}
    with pytest.raises(ConfigError) as raised:
        import_connector("one", {**SINK, "transforms": ""} | {key: unknown[key] for key in ("a.b", "iceberg.unknown")})
    imported = import_connector("one", {**SINK, **extra, **unknown}, allow_partial=True)
    left = {todo.key for todo in imported.todos}
    named = {note.key for note in imported.notes} | set(imported.target_keys) | left

    assert "`a.b`" in raised.value.message
    assert left == {"a.b", "iceberg.unknown", "something.else", "transforms.x.type"} & {
        *extra,
        *unknown,
        "transforms.x.type",
    }
    assert named >= {key for key in extra if not key.startswith("errors.")}


def test_secrets_are_not_copied() -> None:
    """A password of the configuration appears in neither file; a reference takes its place."""
    secret = {
        "iceberg.catalog.credential": "hunter2",
        "iceberg.catalog.s3.secret-access-key": "hunter2",
        "iceberg.catalog.uri": "jdbc:postgresql://u:hunter2@db/x",
        "iceberg.kafka.sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required password="hunter2";',
    }
    imported = import_connector("one", {**SINK, **secret})

    assert "hunter2" not in yaml.safe_dump([imported.pipeline, imported.target]) + str(imported.notes)
    assert (
        imported.target["connections"]["catalog"]["default"]["credential"] == "${secret:env:ICEBERG_CATALOG_CREDENTIAL}"
    )


_KAFKA = "org.apache.kafka.common.security"
_OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.login.callback.handler.class": f"{_KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
}
_OIDC_TARGET = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "${secret:env:KAFKA_CLIENT_SECRET}",
    "sasl.oauthbearer.scope": "kafka",
}
_MSK = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}


@pytest.mark.parametrize("prefix", ["iceberg.kafka.", "consumer.override."])
@pytest.mark.parametrize(
    ("client", "connection"),
    [
        pytest.param(
            _MSK | {"bootstrap.servers": "boot-x.c1.kafka-serverless.eu-west-1.amazonaws.com:9098"},
            {"security.protocol": "SASL_SSL", "auth": {"type": "msk_iam", "msk_iam": {"region": "eu-west-1"}}},
            id="msk",
        ),
        pytest.param(
            _MSK
            | {
                "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required"
                ' awsRoleArn="arn:aws:iam::1:role/a" awsProfileName=p;'
            },
            {
                "security.protocol": "SASL_SSL",
                "auth": {
                    "type": "msk_iam",
                    "msk_iam": {
                        "region": "${env:AWS_REGION}",
                        "profile": "p",
                        "role_arn": "arn:aws:iam::1:role/a",
                    },
                },
            },
            id="msk-role",
        ),
        pytest.param(
            _OIDC
            | {
                "sasl.jaas.config": f'{_KAFKA}.oauthbearer.OAuthBearerLoginModule required clientId="me" scope="kafka"\n'
                ' clientSecret="hunter2" extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";',
            },
            _OIDC_TARGET | {"sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1"},
            id="oidc",
        ),
        pytest.param(
            _OIDC
            | {
                "sasl.oauthbearer.client.credentials.client.id": "me",
                "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
                "sasl.oauthbearer.scope": "kafka",
            },
            _OIDC_TARGET,
            id="oidc-4.1",
        ),
        pytest.param(
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{_KAFKA}.scram.ScramLoginModule required username="hunter2" password="hunter2";',
            },
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "${secret:env:KAFKA_USERNAME}",
                "sasl.password": "${secret:env:KAFKA_PASSWORD}",
            },
            id="scram",
        ),
    ],
)
def test_a_login_of_javas_clients_is_the_same_in_the_target(
    prefix: str, client: dict[str, str], connection: dict[str, Any]
) -> None:
    """Tokens of MSK and of an OpenID provider, and a user's name: every key is used, no secret is copied, and the target is
    valid."""
    given = {prefix + key: value for key, value in client.items()}
    imported = import_connector("one", {**SINK, **given})
    found = imported.target["connections"]["kafka"]["main"]
    assert {key: value for key, value in found.items() if key != "bootstrap.servers"} == connection
    assert not [note for note in imported.notes if note.key in given]
    assert "hunter2" not in yaml.safe_dump(imported.target) + str(imported.notes)
    files = {"targets/local.yaml": yaml.safe_dump(imported.target | {"metadata": {"name": "local"}})}
    assert [one.code for one in load(files=files).diagnostics if one.code.startswith("FLOE-C7")] == []


def test_a_way_to_log_in_that_floe_has_not_is_listed() -> None:
    """Kerberos, and tokens that a class of somebody's makes: nothing half is written."""
    for mechanism in ("GSSAPI", "OAUTHBEARER"):
        given = {
            "iceberg.kafka.sasl.mechanism": mechanism,
            "iceberg.kafka.sasl.jaas.config": "com.example.Own required;",
        }
        imported = import_connector("one", {**SINK, **given})
        found = imported.target["connections"]["kafka"]["main"]
        assert not any(key.startswith("sasl.") for key in found), mechanism
        assert {note.key for note in imported.notes if note.lost} >= set(given), mechanism


@pytest.mark.parametrize("kind", [{"type": "jdbc"}, {"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog"}])
@pytest.mark.parametrize(("given", "name"), [({}, "iceberg"), ({"iceberg.catalog": "lake"}, "lake")])
def test_a_database_keeps_tables_under_the_name_of_the_sinks_catalog(
    kind: dict[str, str], given: dict[str, str], name: str
) -> None:
    """Rows of Java's JDBC catalog carry its name, so the target has it; Java's address is listed as one to write anew."""
    own = {key: value for key, value in SINK.items() if not key.startswith("iceberg.catalog")}
    sink = own | given | {f"iceberg.catalog.{key}": value for key, value in kind.items()}
    imported = import_connector("one", {**sink, "iceberg.catalog.uri": "jdbc:postgresql://db/x"})
    catalog = imported.target["connections"]["catalog"]["default"]
    assert catalog == {"type": "sql", "catalog-name": name, "uri": "${env:ICEBERG_CATALOG_URI}"}
    assert [note.reason[:14] for note in imported.notes if note.key == "iceberg.catalog.uri"] == ["Java's address"]


@pytest.mark.parametrize(
    ("sink", "given", "group"),
    [
        ("org.apache", {}, "connect-one"),
        ("org.apache", {"iceberg.connect.group-id": "own"}, "own"),
        ("io.tabular", {}, "cg-control-one"),
        ("io.tabular", {"iceberg.control.group-id": "own"}, "own"),
    ],
)
def test_the_old_group_is_named(sink: str, given: dict[str, str], group: str) -> None:
    """Whoever takes the offsets over reads in the notes which of a sink's groups has those of its commits."""
    imported = import_connector(
        "one", {**SINK, "connector.class": f"{sink}.iceberg.connect.IcebergSinkConnector", **given}
    )
    assert [n.reason for n in imported.notes if n.key == "name"] == [
        f"the offsets of its source are those of group `{group}`"
    ]


def test_a_record_goes_to_every_table_that_matches() -> None:
    """The sink gives a record to each table whose expression matches, so the pipeline does too."""
    more = {
        "iceberg.tables": "shop.a,shop.b",
        "iceberg.tables.route-field": "type",
        "iceberg.table.shop.a.route-regex": "x|y",
        "iceberg.table.shop.b.route-regex": "y",
    }
    routes = import_connector("one", {**SINK, **more}).pipeline["routes"]

    assert routes["mode"] == "all_match"
    assert [rule["when"]["matches"] for rule in routes["rules"]] == ["x|y", "y"]


def test_an_empty_setting_of_a_table_stands_in_the_way_of_the_default() -> None:
    """A table whose own partition is given and empty has none, as in the sink; a branch without a name is refused."""
    more = {
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.tables.default-partition-by": "kind",
        "iceberg.table.shop.orders.partition-by": "",
    }
    tables = import_connector("one", {**SINK, **more}).pipeline["tables"]

    assert tables["overrides"] == [{"match": "shop.orders", "create": {"partition_by": []}}]
    for key in ("iceberg.tables.default-commit-branch", "iceberg.table.shop.orders.commit-branch"):
        with pytest.raises(ConfigError, match="a branch without a name"):
            import_connector("one", {**SINK, key: ""})


def test_an_expression_that_java_reads_otherwise_is_refused() -> None:
    """What RE2 would take for something else makes no file, wherever the connector has an expression."""
    routed = {"iceberg.tables.route-field": "type", "iceberg.table.shop.orders.route-regex": "[a-z&&[^o]]"}
    topics = {"topics": "", "topics.regex": "db[.[a-z]]+"}
    for more in (routed, topics):
        with pytest.raises(ConfigError, match="would match other texts in floe than in the sink"):
            import_connector("one", {**SINK, **more})


@pytest.mark.parametrize(
    "settings",
    [
        {"iceberg.tables.upsert-mode-enabled": "true"},
        {"iceberg.tables.cdc-field": "op"},
        {"iceberg.tables.cdc-field": "op", "iceberg.tables.default-id-columns": "id"},
        {"iceberg.tables.upsert-mode-enabled": "true", "iceberg.tables.default-id-columns": "customer.id"},
        {"iceberg.tables.cdc-field": "not a field", "iceberg.tables.default-id-columns": "id"},
        {
            "iceberg.tables.upsert-mode-enabled": "true",
            "iceberg.tables.default-id-columns": "id",
            "iceberg.tables.default-commit-branch": "audit",
        },
        {
            "iceberg.tables.upsert-mode-enabled": "true",
            "iceberg.tables.default-id-columns": "id",
            "iceberg.tables.auto-create-props.format-version": "1",
        },
        {
            "iceberg.tables.upsert-mode-enabled": "true",
            "iceberg.tables.default-id-columns": "id",
            "iceberg.table.shop.orders.id-columns": "",
        },
    ],
)
def test_updates_that_a_file_cannot_say_are_refused(settings: dict[str, str]) -> None:
    """A sink that updates rows by a key that no setting names, or otherwise than an upsert table can, makes no file."""
    with pytest.raises(ConfigError) as raised:
        import_connector("one", {**CHANGING, **settings})

    assert raised.value.code == "FLOE-R405"


def test_updates_become_upserts() -> None:
    """Upsert mode and a field of changes become `write`, with the key of all tables or of each."""
    upserts = {"iceberg.tables": "shop.a,shop.b", "iceberg.tables.upsert-mode-enabled": "true"}
    keys = {"iceberg.tables.default-id-columns": "id, region", "iceberg.table.shop.b.id-columns": "number"}

    tables = import_connector("one", {**CHANGING, **upserts, **keys}).pipeline["tables"]

    assert tables["defaults"]["write"] == {"mode": "upsert", "key": ["id", "region"]}
    assert tables["overrides"] == [{"match": "shop.b", "write": {"key": ["number"]}}]

    changes = {"iceberg.tables.cdc-field": "op", "iceberg.table.shop.orders.id-columns": "id"}
    imported = import_connector("one", {**CHANGING, **changes}, deletes_when="D", allow_partial=True)

    write = {"mode": "upsert", "key": ["id"], "delete_when": {"field": "op", "equals": "D"}}
    assert "write" not in imported.pipeline["tables"]["defaults"]
    assert imported.pipeline["tables"]["overrides"] == [{"match": "shop.orders", "write": write}]
    assert "iceberg.tables.cdc-field" in {note.key for note in imported.notes if note.lost}


def test_a_sink_that_adds_rows_stays_one() -> None:
    """Columns of a key alone change nothing: the sink needs them for updates only, and the file says so."""
    imported = import_connector("one", {**SINK, "iceberg.tables.default-id-columns": "id"})

    assert "write" not in imported.pipeline["tables"]["defaults"]
    assert [note.lost for note in imported.notes if note.key == "iceberg.tables.default-id-columns"] == [False]


def test_reasons_are_sentences() -> None:
    """Each key that has no home is explained, also one that nobody knows."""
    assert why_not("iceberg.hadoop.fs.s3a.endpoint")[0]
    assert why_not("consumer.override.max.poll.records") == (
        False,
        "floe itself sets how its clients fetch and send",
    )
    assert why_not("nobody.knows") is None


def transforms(*steps: tuple[str, dict[str, str]]) -> dict[str, str]:
    """Settings of transforms of Kafka's, by class and options; their names are their places."""
    found = {"transforms": ",".join(f"t{number}" for number in range(len(steps)))}
    for number, (kind, options) in enumerate(steps):
        found |= {f"transforms.t{number}.{key}": value for key, value in {"type": KAFKA + kind, **options}.items()}
    return found


def test_a_route_sees_what_the_transforms_left() -> None:
    """A rule that looks at a field which a transform has taken away makes no file: the sink would write nothing."""
    settings = {
        **SINK,
        **transforms(("ExtractField$Value", {"field": "payload"})),
        "iceberg.tables.route-field": "meta.type",
        "iceberg.table.shop.orders.route-regex": "order",
    }
    fields = {"meta": "struct<type: string>", "payload": "struct<id: long>"}

    for known in (None, fields):
        with pytest.raises(ConfigError) as raised:
            import_connector("one", settings, fields=known)
        assert raised.value.code == "FLOE-R405"
    assert "`iceberg.tables.route-field`" in raised.value.message


def test_transforms_are_applied_in_their_order() -> None:
    """What a later transform sees is what the earlier ones made."""
    rename, hide = ("ReplaceField$Value", {"renames": "a:b"}), ("MaskField$Value", {"fields": "b"})

    sql = import_connector("one", {**SINK, **transforms(rename, hide)}, fields={"a": "string"}).pipeline["transform"][
        "sql"
    ]
    with pytest.raises(ConfigError) as raised:
        import_connector("one", {**SINK, **transforms(hide, rename)}, fields={"a": "string"})

    assert sql == "SELECT CASE WHEN a IS NOT NULL THEN '' END AS b FROM source"
    assert "`transforms.t0.fields`" in raised.value.message


@pytest.mark.parametrize(("regex", "replacement"), [("(.*)", "$2"), (r"\pL+", "x"), ("(?<n>.*)", "${m}"), ("(.*", "x")])
def test_a_router_that_cannot_be_run_is_refused(regex: str, replacement: str) -> None:
    """An expression of Java's that does not run here, or names a group that is not there, makes no file."""
    settings = {**SINK, **transforms(("RegexRouter", {"regex": regex, "replacement": replacement}))}

    with pytest.raises(ConfigError) as raised:
        import_connector("one", settings)

    assert "`transforms.t0.regex`" in raised.value.message


def test_a_field_that_was_copied_is_converted_alone() -> None:
    """A copy made before a conversion keeps the field as the record has it."""
    copy = ("TimestampConverter$Value", {"field": "ts", "target.type": "Timestamp"})
    settings = {
        **SINK,
        **transforms(("CopyValue", {"source.field": "ts", "target.field": "raw"}), copy),
        "transforms.t0.type": "org.apache.iceberg.connect.transforms.CopyValue",
    }

    pipeline = import_connector("one", settings, fields={"ts": "long"}).pipeline

    assert pipeline["source"]["schema"] == {"ts": "long"}
    assert pipeline["transform"]["sql"] == "SELECT timestamp_millis(ts) AS ts, ts AS raw FROM source"


def test_transforms_of_keys_change_no_row() -> None:
    """A transform of the key leaves the pipeline as it is, since the sink writes no keys."""
    settings = {**SINK, **transforms(("ReplaceField$Key", {"renames": "a:b"}), ("ExtractField$Key", {"field": "b"}))}

    assert import_connector("one", settings).pipeline == import_connector("one", SINK).pipeline


@pytest.mark.parametrize("negated", [False, True])
def test_predicates_and_their_negation_count(negated: bool) -> None:
    """A filter by topic takes its topics out of the source, and the negated one the others."""
    settings = {
        **SINK,
        "topics": "orders,test-orders",
        **transforms(("Filter", {"predicate": "test", "negate": str(negated).lower()})),
        "predicates": "test",
        "predicates.test.type": KAFKA + "predicates.TopicNameMatches",
        "predicates.test.pattern": "test-.*",
    }

    kafka = import_connector("one", settings).pipeline["source"]["kafka"]

    assert kafka["topics"] == (["test-orders"] if negated else ["orders"])


def test_unrouted_records_stop_an_imported_pipeline() -> None:
    """No rule of the sink says that records may be lost, so the pipeline stops at one that no rule takes."""
    more = {"iceberg.tables.route-field": "type", "iceberg.table.shop.orders.route-regex": "order"}

    assert import_connector("one", {**SINK, **more}).pipeline["routes"]["unrouted"] == "fail"


def test_a_partial_file_says_what_is_left_to_do() -> None:
    """With --allow-partial a transform that has no words is left out, and a TODO names its property."""
    imported = import_connector("one", {**SINK, **transforms(("HoistField$Value", {"field": "x"}))}, allow_partial=True)

    assert [(todo.place, todo.key) for todo in imported.todos] == [("source", "transforms.t0.type")]
    assert "\n# TODO `transforms.t0.type`: " in pipeline_text(imported)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("io-impl", "com.shop.OwnFileIO"),
        ("ref", "staging"),
        ("s3.sse.type", "kms"),
        ("nobody-knows", "1"),
    ],
)
def test_no_property_of_a_catalog_is_dropped_in_silence(key: str, value: str) -> None:
    """A property of the Java catalog that PyIceberg cannot have is refused by name."""
    with pytest.raises(ConfigError) as raised:
        import_connector("one", {**SINK, f"iceberg.catalog.{key}": value})

    assert f"`iceberg.catalog.{key}`" in raised.value.message


def test_properties_of_catalogs_have_their_names_in_the_target() -> None:
    """Path-style access becomes PyIceberg's opposite word, and what needs no setting is told."""
    more = {
        "iceberg.catalog.s3.path-style-access": "true",
        "iceberg.catalog.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "iceberg.catalog.include-credentials": "true",
        "iceberg.catalog.ref": "main",
    }

    imported = import_connector("one", {**SINK, **more})

    assert imported.target["connections"]["catalog"]["default"]["s3.force-virtual-addressing"] == "false"
    assert {note.key for note in imported.notes} >= set(more) - {"iceberg.catalog.s3.path-style-access"}
