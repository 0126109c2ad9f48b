"""Settings of other systems in targets: each is one that its client knows, with a value that it takes."""

from __future__ import annotations

import ctypes
import json
import random
from importlib.metadata import version
from pathlib import Path

import pytest

from framework.adapters.iceberg.private.rest.catalog import CONNECT_TIMEOUT, READ_TIMEOUT
from framework.config.rules.target.known_settings import OWN_CATALOG
from framework.config.settings.known import MASTERS, client, is_master
from tests.known_settings import FOLDER, librdkafka, lists
from tests.unit.config.in_memory import load

_KAFKA = "connections:\n  kafka: {main: {bootstrap.servers: b:9092, %s: %s}}\n  catalog: {default: {type: rest, uri: http://c}}"
_CATALOG = "connections:\n  kafka: {main: {bootstrap.servers: b:9092}}\n  catalog: {default: {type: rest, uri: http://c, %s: %s}}"
_SPARK = "spark: {conf: {%s: %s}}"
_FORMS = {"librdkafka": _KAFKA, "pyiceberg": _CATALOG, "spark": _SPARK}
_PACKAGES = {"librdkafka": "confluent-kafka", "pyiceberg": "pyiceberg", "spark": "pyspark"}
LOCK = Path(__file__).parents[3] / "constraints.txt"
_OURS = ("bootstrap.servers", "type", "uri")


def findings(fragment: str) -> list[tuple[str, str, str]]:
    """Code, path and hint of each finding about a target with these keys."""
    target = f"apiVersion: floe/v1\nkind: Target\nmetadata: {{name: dev}}\n{fragment}\n"
    if "connections:" not in fragment:
        target += "connections:\n  kafka: {main: {bootstrap.servers: b:9092}}\n  catalog: {default: {type: rest}}\n"
    result = load("", files={"targets/dev.yaml": target}, target="dev")
    return [(found.code, found.path, found.hint or "") for found in result.diagnostics]


def _needs_the_locked(name: str) -> None:
    """Skips where the lock names another version than the one that is installed, as `make versions` has it."""
    package = _PACKAGES[name]
    if f"{package}=={version(package)}\n" not in LOCK.read_text(encoding="utf-8"):
        pytest.skip(f"the lists are of the locked version of {package}, and {version(package)} is installed")


@pytest.mark.parametrize("name", _FORMS)
def test_the_lists_are_those_of_what_is_installed(name: str) -> None:
    """The lists in the package are made from the versions that are installed; `python -m tests.known_settings` writes
    them."""
    _needs_the_locked(name)

    assert json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) == lists()[name]


@pytest.mark.parametrize("name", _FORMS)
def test_a_letter_that_is_wrong_is_found_in_any_setting(name: str) -> None:
    """Whatever setting is mistyped, it is told with its place, and what was meant is mostly guessed."""
    chosen, known = random.Random(1), client(name)
    settings = chosen.sample([setting for setting in known.values if setting not in _OURS and len(setting) > 8], 60)
    guessed = 0
    for setting in settings:
        at = chosen.randrange(len(setting) - 2)
        wrong = setting[:at] + setting[at + 1] + setting[at] + setting[at + 2 :]
        if known.knows(wrong) or wrong[at] == "." or wrong[at + 1] == ".":
            continue
        found = [each for each in findings(_FORMS[name] % (wrong, "1")) if each[0] == "FLOE-C704"]
        assert len(found) == 1, wrong
        assert wrong in found[0][1]
        guessed += f"`{setting}`" in found[0][2]
    assert guessed > 35


@pytest.mark.parametrize(
    ("form", "wrong", "meant"),
    [
        (_KAFKA, "security.protocl", "security.protocol"),
        (_KAFKA, "sasl_mechanism", "sasl.mechanism"),
        (_CATALOG, "warehous", "warehouse"),
        (_CATALOG, "s3.acess-key-id", "s3.access-key-id"),
        (_SPARK, "spark.exectuor.memory", "spark.executor.memory"),
        (_SPARK, "executor.memory", ""),
    ],
)
def test_mistyped_settings_that_people_wrote(form: str, wrong: str, meant: str) -> None:
    """What was probably meant is named."""
    ((code, path, hint),) = findings(form % (wrong, "x"))

    assert (code, path.endswith(wrong)) == ("FLOE-C704", True)
    assert meant in hint


@pytest.mark.parametrize("name", _FORMS)
def test_an_unknown_setting_can_be_let_through(name: str) -> None:
    """`allow.settings` lets settings of plugins through, by name or pattern, and only those."""
    unknown = _FORMS[name] % ("spark.acme.level", "high")

    assert [code for code, _, _ in findings(unknown)] == ["FLOE-C704"]
    assert findings(f'{unknown}\nallow: {{settings: ["spark.acme.*"]}}') == []
    assert findings(f"{unknown}\nallow: {{settings: [spark.acme.level]}}") == []
    assert [code for code, _, _ in findings(f"{unknown}\nallow: {{settings: [spark.acme]}}")] == ["FLOE-C704"]


@pytest.mark.parametrize(
    "setting",
    [
        "spark.hadoop.fs.s3a.endpoint",
        "spark.executorEnv.LANG",
        "spark.sql.catalog.lake.type",
        "spark.kubernetes.driver.label.team",
        "spark.executor.resource.gpu.amount",
        "spark.pyspark.python",
    ],
)
def test_names_that_end_as_people_like(setting: str) -> None:
    """Spark has families of settings whose names are chosen by people."""
    assert findings(_SPARK % (setting, "x")) == []


def _takes(setting: str, value: str) -> bool:
    """librdkafka's own answer."""
    library = librdkafka()
    library.rd_kafka_conf_new.restype = ctypes.c_void_p
    library.rd_kafka_conf_set.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    library.rd_kafka_conf_destroy.argtypes = [ctypes.c_void_p]
    conf, text = library.rd_kafka_conf_new(), ctypes.create_string_buffer(512)
    try:
        return bool(library.rd_kafka_conf_set(conf, setting.encode(), value.encode(), text, len(text)) == 0)
    finally:
        library.rd_kafka_conf_destroy(conf)


def test_values_are_judged_as_librdkafka_judges_them() -> None:
    """Each word and bound of the list is taken by the library, and what the list refuses the library refuses."""
    _needs_the_locked("librdkafka")
    known = client("librdkafka")
    for setting, taken in known.values.items():
        # A mechanism is checked when a client is made.
        if not taken or setting.startswith("sasl.mechanism"):
            continue
        low, dots, high = taken.removeprefix("number ").partition(" .. ")
        words = [low, high, str(int(high) + 1), str(int(low) - 1)] if dots else [*taken.split(", "), "T", "1", "yes"]
        for word in (*words, *(word.upper() for word in words), "nonsense"):
            if not known.allowed(setting, word):
                assert _takes(setting, word), (setting, word)
            else:
                assert not _takes(setting, word), (setting, word)


@pytest.mark.parametrize(
    ("setting", "value", "meant"),
    [
        ("security.protocol", "sasl-ssl", "sasl_ssl"),
        ("sasl.mechanism", "SCRAM-SHA-265", "SCRAM-SHA-256"),
        ("compression.type", "gzipp", "gzip"),
        ("linger.ms", "-1", ""),
        ("enable.ssl.certificate.verification", "no", ""),
    ],
)
def test_a_value_out_of_a_list_is_reported(setting: str, value: str, meant: str) -> None:
    """A value that librdkafka would refuse at the start is told before, with what was probably meant."""
    ((code, _, hint),) = findings(_KAFKA % (setting, f'"{value}"'))

    assert code == "FLOE-C705"
    assert meant in hint


def test_values_by_reference_are_not_judged() -> None:
    """What only the place of the run knows is not known here."""
    assert findings(_KAFKA % ("security.protocol", '"${secret:env:PROTOCOL}"')) == []


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[2,4]", "local[*, 3]", "local-cluster[2,1,1024]", "spark://a:7077,b:7077", "yarn",
     "k8s://https://a:6443", "k8s://a:6443"],
)  # fmt: skip
def test_masters_of_spark(master: str) -> None:
    """Every form of master that Spark knows is taken."""
    assert is_master(master)
    assert findings(f'spark: {{master: "{master}"}}') == []


@pytest.mark.parametrize("master", ["yarnn", "local[0]", "local[two]", "spark://a", "mesos://a:5050", "YARN", "k8s:/a"])
def test_no_masters_of_spark(master: str) -> None:
    """A master that Spark would refuse is told with those that it knows."""
    assert [code for code, _, _ in findings(f'spark: {{master: "{master}"}}')] == ["FLOE-C706"]
    assert all(is_master(each.replace("HOST:PORT", "h:1")) for each in MASTERS)


def test_what_floe_reads_itself_is_known() -> None:
    """The settings of catalogs that floe reads beside PyIceberg are let through."""
    assert {CONNECT_TIMEOUT, READ_TIMEOUT, "catalog-name"} == OWN_CATALOG
    assert findings(_CATALOG % (CONNECT_TIMEOUT, "500")) == []


def test_lists_are_small_and_are_data() -> None:
    """The lists are names and values alone, in the package."""
    for name in _FORMS:
        content = json.loads(Path(FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        assert set(content) == {"client", "version", "families", "settings"}
        assert len(content["settings"]) > 100
