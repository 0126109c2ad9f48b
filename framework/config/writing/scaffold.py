"""New files for people to start from: a pipeline file and the embedded stack's target, with explaining comments.

In: names and what is known of the records, as values. Out: YAML text that the loader accepts as it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_RESERVED = frozenset({"true", "false", "null"})

LOCAL_TARGET = """\
# yaml-language-server: $schema=../../schemas/target.v1.schema.json
# The embedded stack of `floe local up`: one broker and one catalog on this machine, data under .floe/.
apiVersion: floe/v1
kind: Target
metadata: {name: local}
prefix: floe
connections:
  kafka: {main: {bootstrap.servers: "${local:bootstrap_servers}"}}
  catalog: {default: {type: sql, uri: "${local:catalog_uri}", warehouse: "${local:warehouse}"}}
spark: {master: "local[2,4]", conf: {}}
"""


@dataclass(frozen=True)
class ScaffoldHint:
    """One line under `source.schema`: a path, the mapping that stands behind it, and why."""

    path: str
    keys: tuple[tuple[str, str], ...]
    comment: str = ""


@dataclass(frozen=True)
class Scaffold:
    """What a new pipeline file says. `split_by` names the field whose value ends each table's name.

    `partition_by` is a list of partition fields as the file writes them; `splits` are comments about fields that could
    part the records, one text each; `questions` are lines for the schema that a person must decide on, each with why.
    """

    name: str
    topics: tuple[str, ...]
    table: str
    connection: str = "main"
    interval: str = "3m"
    hints: tuple[ScaffoldHint, ...] = ()
    partition_by: tuple[str, ...] = ()
    metadata_columns: tuple[str, ...] = ()
    split_by: str | None = None
    splits: tuple[str, ...] = ()
    questions: tuple[tuple[str, str], ...] = ()
    envelope: str | None = None
    explode: str | None = None

    @property
    def namespace(self) -> str:
        return self.table.rpartition(".")[0]


def pipeline_text(what: Scaffold) -> str:
    """The file, ending with a line end."""
    return "\n".join(_lines(what)) + "\n"


def _lines(what: Scaffold) -> Iterator[str]:
    yield "# yaml-language-server: $schema=../schemas/pipeline.v1.schema.json"
    yield "apiVersion: floe/v1"
    yield "kind: Pipeline"
    yield "metadata:"
    yield _commented(
        f"  name: {_flow_scalar(what.name)}", "also names its offsets: with another name it reads from the start again"
    )
    yield ""
    yield "source:"
    yield "  kafka:"
    yield _commented(f"    connection: {_flow_scalar(what.connection)}", "one of the target's connections")
    yield f"    topics: {_list(what.topics)}"
    yield _commented("    starting_offsets: earliest", "for the very first run only")
    words = (("type", "json"), ("explode", what.explode), ("envelope", what.envelope))
    yield f"  format: {{{', '.join(f'{key}: {_flow_scalar(word)}' for key, word in words if word)}}}"
    if what.metadata_columns:
        yield f"  metadata_columns: {_list(what.metadata_columns)}"
    if what.questions and not what.hints:
        yield "  # schema:"
    if what.hints:
        yield _commented("  schema:", "what JSON itself cannot say; all other columns come from the records")
        for hint in what.hints:
            keys = ", ".join(f"{key}: {_flow_scalar(value)}" for key, value in hint.keys)
            yield _commented(f"    {_flow_scalar(hint.path)}: {{{keys}}}", hint.comment)
    for answer, question in what.questions:
        yield f"    # {question}:"
        yield f"    # {answer}"
    yield ""
    yield "routes:"
    yield _commented("  rules:", "the first that matches takes the record")
    for split in what.splits:
        yield f"    # {split}"
    if what.split_by:
        yield f'    - {{table: "{what.table}_{{{what.split_by}}}"}}'
    else:
        yield f"    - {{table: {_flow_scalar(what.table)}}}"
    yield "  unrouted: dead_letter"
    yield _commented(f'  allow_tables: ["{what.namespace}.*"]', "whatever a record says, it goes to no other table")
    yield ""
    yield "tables:"
    yield "  defaults:"
    yield f"    create: {{partition_by: {_list(what.partition_by)}}}"
    yield _commented("    evolve: {columns: evolve}", "new fields become new columns")
    yield _commented(f"    commit: {{interval: {what.interval}}}", "how long a record may take to become visible")
    yield ""
    yield "errors:"
    yield _commented("  policy: dead_letter", "what cannot be written is kept: bytes, position and reason")
    yield f"  dead_letter_table: {what.namespace}.dead_letters"


def _commented(line: str, comment: str) -> str:
    """Comments stand in one column, unless a line is longer."""
    return f"{line:<36} # {comment}" if comment else line


def _list(items: Sequence[str]) -> str:
    return "[" + ", ".join(_flow_scalar(item) for item in items) + "]"


def _flow_scalar(value: str) -> str:
    """A value in flow style: plain where YAML reads it back as the same text."""
    return value if _PLAIN.match(value) and value.lower() not in _RESERVED else json.dumps(value, ensure_ascii=False)
