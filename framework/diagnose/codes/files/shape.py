"""FLOE-C2xx: keys and single values, as the JSON Schema states them."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

_USE = """\
template: {name: landing, version: %s}
# file: templates/landing.yaml
apiVersion: floe/v1
kind: Template
metadata: {name: landing, version: 1.2.0, description: One topic.}
pipeline: {source: {kafka: {topics: [orders]}}}"""
_ROUTES = "routes:\n  rules:\n    - {table: %s}"

ENTRIES = (
    Code(
        "FLOE-C201",
        "Unknown key",
        "There is no such key here. floe never ignores an unknown key, since a mistyped setting would then be lost. Keys that begin with `x-` are free for your own notes.",
        "source: {kafka: {topics: [orders], starting_ofsets: latest}}",
        "source: {kafka: {topics: [orders], starting_offsets: latest}, x-notes: ours}",
    ),
    Code(
        "FLOE-C202",
        "A key is missing",
        "The key has no default, so the file must give it. Often it is present, but one level too deep.",
        "source: {format: {type: json}}",
        "source: {kafka: {topics: [orders]}, format: {type: json}}",
    ),
    Code(
        "FLOE-C203",
        "A value is of the wrong type",
        "Values are read by YAML 1.2: `no`, `off` and `1:30` are text, `true` and `false` are booleans, `1e3` is a number. Text that looks like a number needs quotes.",
        "tables: {defaults: {create: {enabled: no}}}",
        "tables: {defaults: {create: {enabled: false}}}",
    ),
    Code(
        "FLOE-C204",
        "Not one of the values",
        "Only the listed words are understood.",
        "routes:\n  mode: first\n  rules: [{table: shop.orders}]",
        "routes:\n  mode: first_match\n  rules: [{table: shop.orders}]",
    ),
    Code(
        "FLOE-C205",
        "Not a duration",
        "A duration is a whole number and a unit: ms, s, m, h or d. A plain number is refused, since it does not show its unit.",
        "tables: {defaults: {commit: {interval: 180}}}",
        "tables: {defaults: {commit: {interval: 180s}}}",
    ),
    Code(
        "FLOE-C206",
        "Not a size",
        "A size is a number of bytes, or a whole number and a unit: KiB, MiB, GiB and TiB count by 1024; kB, MB, GB and TB by 1000.",
        "tables: {defaults: {commit: {max_bytes: 512 mb}}}",
        "tables: {defaults: {commit: {max_bytes: 512MiB}}}",
    ),
    Code(
        "FLOE-C207",
        "Not a regular expression",
        "The expression cannot be compiled; the message says at which character. In YAML, single quotes keep backslashes as they are.",
        'source: {kafka: {topic_pattern: "orders-(eu|us"}}',
        'source: {kafka: {topic_pattern: "orders-(eu|us)"}}',
    ),
    Code(
        "FLOE-C208",
        "Not a partition field",
        "A partition field is a column, or year, month, day, hour of a column, or bucket and truncate with a number: `bucket(16, id)`. `bucket(id, 16)` works too.",
        "tables: {defaults: {create: {partition_by: [buckets(id)]}}}",
        "tables: {defaults: {create: {partition_by: ['bucket(16, id)']}}}",
    ),
    Code(
        "FLOE-C209",
        "Not a name",
        "Names are letters, digits, `_` and `-`; topics and patterns also take `.`. Names end up in consumer groups, tables and file paths.",
        "metadata: {name: my orders}",
        "metadata: {name: my-orders}",
    ),
    Code(
        "FLOE-C210",
        "A number is out of range",
        "The message says the limit.",
        "tables: {defaults: {commit: {max_rows: 0}}}",
        "tables: {defaults: {commit: {max_rows: 1000}}}",
    ),
    Code(
        "FLOE-C211",
        "A file of the wrong kind",
        "`kind` says whether a file is a pipeline, a target or a template. Pass a target with `--target`; name a template under `template:`.",
        "kind: Target",
        "kind: Pipeline",
    ),
    Code(
        "FLOE-C212",
        "Not a table name",
        "A table is `namespace.name`; the namespace may have several parts. Letters, digits, `_` and `-` are allowed, and `{field}` after the namespace.",
        _ROUTES % "orders",
        _ROUTES % "shop.orders",
    ),
    Code(
        "FLOE-C213",
        "A list or mapping is empty",
        "An empty list here would mean a pipeline that reads or writes nothing.",
        "source: {kafka: {topics: []}}",
        "source: {kafka: {topics: [orders]}}",
    ),
    Code(
        "FLOE-C214",
        "Not an Iceberg type",
        "Declared fields have Iceberg's types: boolean, int, long, float, double, decimal(p, s), date, time, timestamp, timestamptz, timestamp_ns, timestamptz_ns, string, uuid, binary, fixed[n]; and list<...>, map<..., ...>, struct<name: ..., ...> of them.",
        "source:\n  kafka: {topics: [orders]}\n  schema: {price: numeric(10, 2)}",
        'source:\n  kafka: {topics: [orders]}\n  schema: {price: "decimal(10, 2)"}',
    ),
    Code(
        "FLOE-C215",
        "A value has the wrong form",
        "The value must have the form that the message names.",
        _USE % "latest",
        _USE % "1",
    ),
    Code(
        "FLOE-C216",
        "Not a time zone",
        "Zones are IANA names such as `Europe/Berlin`. Short names such as `CET` and fixed offsets have no daylight saving time.",
        'source:\n  kafka: {topics: [orders]}\n  schema: {at: {type: timestamptz, zone: "+02:00"}}',
        "source:\n  kafka: {topics: [orders]}\n  schema: {at: {type: timestamptz, zone: Europe/Berlin}}",
    ),
    Code(
        "FLOE-C217",
        "Not a date format",
        "Formats are written in strptime's directives: `%Y-%m-%d %H:%M:%S`.",
        'source:\n  kafka: {topics: [orders]}\n  schema: {day: {type: date, format: "yyyy-MM-dd"}}',
        'source:\n  kafka: {topics: [orders]}\n  schema: {day: {type: date, format: "%Y-%m-%d"}}',
    ),
    Code(
        "FLOE-C218",
        "An item is given twice",
        "Each item counts once. The second one changes nothing, or was meant to be something else.",
        "source: {kafka: {topics: [orders, orders]}}",
        "source: {kafka: {topics: [orders, refunds]}}",
    ),
    Code(
        "FLOE-C219",
        "A file version that this floe does not read",
        "`apiVersion` says which version of the file format a file uses. A newer one needs a newer floe. `floe migrate` updates an older one.",
        "apiVersion: floe/v9",
        "apiVersion: floe/v1",
    ),
    Code(
        "FLOE-C220",
        "A regular expression that floe does not run",
        "Expressions run on untrusted data. floe uses RE2, whose run time grows only with the length of the text. RE2 has no look-around and no back-references, and `\\d`, `\\w`, `\\s` and `\\b` match ASCII only. See https://github.com/google/re2/wiki/Syntax.",
        'source: {kafka: {topic_pattern: "^orders-(?!test)"}}',
        'source: {kafka: {topic_pattern: "^orders-(eu|us)"}}',
    ),
)
