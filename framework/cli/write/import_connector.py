"""`floe import-connector`: the configuration of an Iceberg sink of Kafka Connect as a pipeline file."""

from __future__ import annotations

import json
from collections.abc import Mapping as Mapped
from pathlib import Path
from types import MappingProxyType

import click
import yaml

from framework.adapters.project.files import read_text
from framework.cli.shared import complete
from framework.config.document import Files
from framework.config.load import RULES
from framework.config.rules.rules import Document
from framework.config.schema.document_schema import check
from framework.config.text import SourceText
from framework.config.tree import Mapping, parse, plain
from framework.config.values.type_text import structure
from framework.connector.translation.read import read_settings, with_worker
from framework.connector.translation.translate import Imported, import_connector
from framework.connector.translation.untranslatable import refused
from framework.errors import ConfigError

NO_SETTINGS: Mapped[str, str] = MappingProxyType({})
_MODELINE = "# yaml-language-server: $schema=../schemas/{}.v1.schema.json\n"


@click.command("import-connector")
@click.argument("file", type=click.Path(), metavar="FILE")
@click.option(
    "--output", "-o", type=click.Path(), metavar="FILE", help="Where to write the pipeline file; printed without it."
)
@click.option("--target-file", type=click.Path(), metavar="FILE", help="Also write a target file.")
@click.option(
    "--worker",
    "worker_file",
    type=click.Path(),
    metavar="FILE",
    help="The properties of the Connect worker, for converters that the connector does not name.",
)
@click.option("--tables", metavar="NAMES", default="", help="With dynamic routing: the tables that records may name.")
@click.option(
    "--fields",
    "fields_file",
    type=click.Path(),
    metavar="FILE",
    help="All fields of the records with their types, as under `source.schema`; for transforms that shape records.",
)
@click.option(
    "--value-schema",
    "schema_file",
    type=click.Path(),
    metavar="FILE",
    help="The Avro schema of the records whose converter asks a registry; its types are compared.",
)
@click.option("--delete-value", metavar="VALUE", help="What the field of changes holds in a record that deletes.")
@click.option(
    "--allow-partial", is_flag=True, help="Leave out what a pipeline file cannot say, with a TODO in its place."
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    metavar="N",
    help="Add a test of the newest N records of each topic, with the rows that the sink writes of them.",
)
@click.option("--sample-file", metavar="FILE", help="The same, of the records of a file, one JSON value per line.")
@click.option("--mask", multiple=True, metavar="FIELD", help="Sample this field (dotted path) without its value.")
@click.option("--target", metavar="NAME", help="The target whose broker is sampled.", shell_complete=complete.targets)
@click.option("--yes", is_flag=True, help="Write values of sampled records without asking.")
@click.option("--name", metavar="NAME", help="The pipeline's name; by default the connector's name.")
def import_connector_command(
    file: str,
    output: str | None,
    target_file: str | None,
    worker_file: str | None,
    tables: str,
    fields_file: str | None,
    schema_file: str | None,
    delete_value: str | None,
    allow_partial: bool,
    sample: int | None,
    sample_file: str | None,
    mask: tuple[str, ...],
    target: str | None,
    yes: bool,
    name: str | None,
) -> int:
    """Turn the configuration of an Iceberg sink of Kafka Connect (JSON or properties) into a pipeline file.

    What the file cannot say is refused by name, unless --allow-partial leaves it out. Standard error lists every other
    key that is not carried over, with the reason. Secrets are not copied.
    """
    found, settings = read_settings(_text(file), file)
    if worker_file is not None:
        settings = with_worker(settings, _text(worker_file), str(worker_file))
    imported = import_connector(
        name or found or Path(file).stem,
        settings,
        tuple(part.strip() for part in tables.split(",") if part.strip()),
        fields=None if fields_file is None else _fields(fields_file),
        deletes_when=delete_value,
        allow_partial=allow_partial,
        value_schema=None if schema_file is None else _schema(schema_file),
    )
    pipeline = pipeline_text(imported)
    check_text(pipeline, output or "pipeline.yaml", settings)
    if sample is not None or sample_file is not None:
        from framework.cli.write.import_proof import (
            ProofSample,
            with_proof,
        )  # needs Arrow; a file without a proof does not

        place = output or "pipeline.yaml"
        pipeline = with_proof(pipeline, place, settings, ProofSample(sample, sample_file, mask, target, yes))
    elif mask or yes or target:
        raise click.UsageError("--mask, --target and --yes belong to --sample and --sample-file")
    if output:
        _write(output, pipeline)
    else:
        click.echo(pipeline, nl=False)
    if target_file:
        _write(target_file, _MODELINE.format("target").replace("../", "../../") + _yaml(imported.target))
    _report(imported, target_file)
    return 0


def _schema(file: str) -> object:
    """A file of JSON. Raises ConfigError FLOE-R404."""
    try:
        return json.loads(_text(file))
    except (ValueError, RecursionError) as error:
        message, remedy = f"the schema is not JSON: {error}", "give the text that the registry has"
        raise ConfigError(message, code="FLOE-R404", place=file, remedy=remedy) from None


def _text(file: str) -> str:
    """The text of a file of Connect's. Raises ConfigError FLOE-R404."""
    try:
        return read_text(Path(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(
            f"the file cannot be read: {reason}", code="FLOE-R404", place=file, remedy="check the path"
        ) from None


def pipeline_text(imported: Imported) -> str:
    """The pipeline file, with what is left to do before the key that it belongs to."""
    text = _MODELINE.format("pipeline") + _yaml(imported.pipeline)
    for todo in imported.todos:
        line = " ".join(f"TODO `{todo.key}`: {todo.message}".split())
        text = text.replace(f"\n{todo.place}:", f"\n# {line}\n{todo.place}:", 1)
    return text


def _fields(file: str) -> dict[str, str]:
    """The declared fields of a file: names and types, alone or under `source.schema`.

    Raises:
        ConfigError: FLOE-R404, the file cannot be read, or holds something else.
    """
    try:
        tree, findings = parse(SourceText(file, read_text(Path(file))))
    except (OSError, UnicodeDecodeError):
        tree, findings = None, []
    found = plain(tree) if isinstance(tree, Mapping) else None
    if isinstance(found, dict) and isinstance(found.get("source"), dict):
        found = found["source"].get("schema")
    remedy = "give a line `name: type` for each field, such as `id: long`"
    if findings or not isinstance(found, dict) or not found:
        raise ConfigError("no fields are declared there", tuple(findings), code="FLOE-R404", place=file, remedy=remedy)
    for name, kind in found.items():
        try:
            structure(str(kind))
        except ValueError as error:
            raise ConfigError(f"`{name}`: {error}", code="FLOE-R404", place=file, remedy=remedy) from None
    if len({str(name).lower() for name in found}) < len(found):
        raise ConfigError("two fields differ only in case", code="FLOE-R404", place=file, remedy=remedy)
    return {str(name): str(kind) for name, kind in found.items()}


def check_text(text: str, file: str, settings: Mapped[str, str] = NO_SETTINGS) -> None:
    """Nothing is handed out that `floe validate` would refuse, such as a name that only Kafka Connect allows.

    Args:
        settings: the connector's, so that a refusal names the one that holds what is wrong.
    """
    source = SourceText(file, text)
    tree, findings = parse(source)
    assert isinstance(tree, Mapping)
    checked, found = check(tree, "pipeline")
    assert isinstance(checked, Mapping)
    findings += found
    for rule in RULES if not findings else ():
        findings += rule(Document(checked, None))
    files = Files()
    files.add(source)
    if errors := tuple(finding for finding in files.finish(findings) if finding.is_error):
        for finding in errors:
            named = finding.message.partition("`")[2].partition("`")[0].removesuffix("-floe")
            holds = (key for key, value in settings.items() if named in (value, *map(str.strip, value.split(","))))
            if (key := next(holds, None)) is not None:
                raise refused(key, finding.message, finding.remedy or "")
        raise ConfigError("the connector's configuration gives no valid pipeline file", errors, code="FLOE-R405")


def _yaml(values: object) -> str:
    return yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)


def _write(path: str, text: str) -> None:
    try:
        with Path(path).open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        raise ConfigError(
            "the file exists already", code="FLOE-R405", place=path, remedy="name another file, or remove it"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"the file cannot be written: {error.strerror}", code="FLOE-R405", place=path, remedy="check the path"
        ) from None
    click.echo(f"wrote {path}", err=True)


def _report(imported: Imported, target_file: str | None) -> None:
    if imported.target_keys and not target_file:
        click.echo("\nFor the target, which `--target-file` writes:", err=True)
        click.echo(f"  {', '.join(imported.target_keys)}", err=True)
    if imported.todos:
        click.echo("\nLeft out, with a TODO in the file:", err=True)
    for todo in imported.todos:
        click.echo(f"  {todo.key}: {todo.message}", err=True)
    for title, lost in (("Not carried over", True), ("Good to know", False)):
        notes = [note for note in imported.notes if note.lost is lost]
        if notes:
            click.echo(f"\n{title}:", err=True)
        for note in notes:
            click.echo(f"  {note.key}: {note.reason}", err=True)
    click.echo(
        "\nBefore it runs: stop the connector. The pipeline begins at `starting_offsets`, not where the connector ended, so\n"
        "records that the connector has written are written again: let it write to other tables, or begin at `latest`.",
        err=True,
    )
