"""`floe import-connector`: the configuration of an Iceberg sink of Kafka Connect as a pipeline file."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from framework.adapters.files import read_text
from framework.config.connector.read import read_settings
from framework.config.connector.translate import Imported, import_connector
from framework.config.document import Files
from framework.config.load import RULES
from framework.config.rules.rules import Document
from framework.config.schema import check
from framework.config.text import SourceText
from framework.config.tree import Mapping, parse
from framework.errors import ConfigError

_MODELINE = "# yaml-language-server: $schema=../schemas/{}.v1.schema.json\n"


@click.command("import-connector")
@click.argument("file", type=click.Path(), metavar="FILE")
@click.option(
    "--output", "-o", type=click.Path(), metavar="FILE", help="Where to write the pipeline file; printed without it."
)
@click.option("--target-file", type=click.Path(), metavar="FILE", help="Also write a target file.")
@click.option("--tables", metavar="NAMES", default="", help="With dynamic routing: the tables that records may name.")
@click.option("--name", metavar="NAME", help="The pipeline's name; by default the connector's name.")
def import_connector_command(
    file: str, output: str | None, target_file: str | None, tables: str, name: str | None
) -> int:
    """Turn the configuration of an Iceberg sink of Kafka Connect (JSON or properties) into a pipeline file.

    Standard error lists every key that cannot be carried over, with the reason. Secrets are not copied.
    """
    try:
        text = read_text(Path(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(
            f"the file cannot be read: {reason}", code="FLOE-R404", place=file, remedy="check the path"
        ) from None
    found, settings = read_settings(text, file)
    imported = import_connector(
        name or found or Path(file).stem, settings, tuple(part.strip() for part in tables.split(",") if part.strip())
    )
    pipeline = _MODELINE.format("pipeline") + _yaml(imported.pipeline)
    _check(pipeline, output or "pipeline.yaml")
    if output:
        _write(output, pipeline)
    else:
        click.echo(pipeline, nl=False)
    if target_file:
        _write(target_file, _MODELINE.format("target").replace("../", "../../") + _yaml(imported.target))
    _tell(imported, target_file)
    return 0


def _check(text: str, file: str) -> None:
    """Nothing is handed out that `floe validate` would refuse, such as a name that only Kafka Connect allows."""
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


def _tell(imported: Imported, target_file: str | None) -> None:
    if imported.target_keys and not target_file:
        click.echo("\nFor the target, which `--target-file` writes:", err=True)
        click.echo(f"  {', '.join(imported.target_keys)}", err=True)
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
