"""FLOE-C3xx: variables, references in values, options, secrets."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import ShownAs, Transcript

_KAFKA = "connections:\n  kafka: {main: {bootstrap.servers: broker:9092, %s}}\n  catalog: {default: {type: rest, uri: http://catalog}}"

ENTRIES = (
    Code(
        "FLOE-C301",
        "Undefined variable",
        "`${var.NAME}` needs a variable that the file declares or the target gives.",
        'variables: {region: eu}\nsource: {kafka: {topics: ["orders-${var.regoin}"]}}',
        'variables: {region: eu}\nsource: {kafka: {topics: ["orders-${var.region}"]}}',
    ),
    Code(
        "FLOE-C302",
        "An environment variable is not set",
        "`${env:NAME}` is read where the command runs. It has no default, so that a missing setting cannot pass as an empty one. If you need a default, declare a variable in the file.",
        'source: {kafka: {topics: ["${env:FLOE_EXAMPLE_UNSET}"]}}',
        'source: {kafka: {topics: ["${env:FLOE_EXAMPLE_SET}"]}}',
    ),
    Code(
        "FLOE-C303",
        "Not a reference",
        "The forms are `${var.NAME}`, `${env:NAME}`, `${local:NAME}`, `${secret:env:NAME}` and `${secret:file:/path}`. `$${` stands for a literal `${`.",
        'source: {kafka: {topics: ["${REGION}-orders"]}}',
        'variables: {region: eu}\nsource: {kafka: {topics: ["${var.region}-orders"]}}',
    ),
    Code(
        "FLOE-C304",
        "A secret is used where it cannot be",
        "Secrets are allowed only in the connections of a target, as whole values. The driver reads them at start and never prints them.",
        'source: {kafka: {topics: ["${secret:env:TOPIC}"]}}',
        "source: {kafka: {topics: [orders]}}",
    ),
    Code(
        "FLOE-C305",
        "An environment variable is not set here",
        "Validation does not need the run's environment, so this value was not checked. Set the variable to check it; `--strict` turns this into an error.",
        transcript=Transcript(
            "validate orders.yaml -t prod",
            "the environment variable `FLOE_BROKERS` is not set here, so its value was not checked",
            "targets/prod.yaml:5:36",
            "set `FLOE_BROKERS` to check it too",
            (
                "export FLOE_BROKERS=broker:9092",
                "floe validate orders.yaml -t prod",
            ),
            ShownAs.WARNING,
        ),
    ),
    Code(
        "FLOE-C306",
        "The local stack is not up",
        "`${local:NAME}` reads what `floe local up` wrote. The target `local` needs it.",
        transcript=Transcript(
            "run orders.yaml",
            "the embedded stack is not up",
            "connections.kafka.main.bootstrap.servers",
            "run `floe local up`, or name another target with `--target`",
            (
                "floe local up",
                "floe run orders.yaml",
            ),
        ),
    ),
    Code(
        "FLOE-C307",
        "A variable's value is of the wrong type",
        "Variables and parameters have a type: string, integer, number, boolean or list. `choices` lists the allowed values.",
        "variables: {retries: {type: integer, default: many}}",
        "variables: {retries: {type: integer, default: 3}}",
    ),
    Code(
        "FLOE-C308",
        "A variable has no value",
        "The variable has no default, and neither the target nor `--var` gives it a value.",
        'variables: {region: {description: Where we are}}\nsource: {kafka: {topics: ["orders-${var.region}"]}}',
        'variables: {region: {description: Where we are, default: eu}}\nsource: {kafka: {topics: ["orders-${var.region}"]}}',
    ),
    Code(
        "FLOE-C309",
        "No file declares the variable",
        "`--var` gives a name that neither the files nor the target declare.",
        "validate base.yaml --var colour=red",
        "validate base.yaml",
        "command",
    ),
    Code(
        "FLOE-C310",
        "`--set` names no place in the file",
        "`--set` takes keys with dots between them and `[0]` for list items. Missing mappings are created; list items must exist.",
        "validate base.yaml --set routes.rules[7].table=shop.b",
        "validate base.yaml --set routes.rules[0].table=shop.b",
        "command",
    ),
    Code(
        "FLOE-C311",
        "A secret is written in clear",
        "Files are in version control, so they name secrets and do not hold them. `${secret:env:NAME}` reads an environment variable, `${secret:file:/path}` a file. Only the driver reads them.",
        _KAFKA % "sasl.password: hunter2",
        _KAFKA % 'sasl.password: "${secret:env:KAFKA_PASSWORD}"',
        "target",
    ),
    Code(
        "FLOE-C312",
        "A key holds a reference",
        "References are for values. To build keys, use a template's `#%` lines.",
        'x-notes: {a: {"${var.b}": c}}',
        "x-notes: {a: {b: c}}",
    ),
    Code(
        "FLOE-C314",
        "An environment variable that files may not read",
        "The target lists under `allow.environment` what pipeline files and templates may read from the environment, since plans show those values. For secrets, use `${secret:...}` in connections.",
        'source: {kafka: {topics: ["${env:HOME}"]}}',
        'source: {kafka: {topics: ["${env:FLOE_EXAMPLE_SET}"]}}',
    ),
    Code(
        "FLOE-C313",
        "A list inside text",
        "A variable of type list can only be a whole value.",
        'variables: {topics: {type: list, default: [a, b]}}\nsource: {kafka: {topics: ["x-${var.topics}"]}}',
        'variables: {topics: {type: list, default: [a, b]}}\nsource: {kafka: {topics: "${var.topics}"}}',
    ),
)
