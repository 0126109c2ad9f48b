"""FLOE-C6xx and C7xx: templates and targets."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import ShownAs, Transcript

_LANDING = """\
# file: templates/landing.yaml
apiVersion: floe/v1
kind: Template
metadata: {name: landing, version: 1.2.0, description: One topic to one table.}
parameters:
  topic: {type: string, description: The topic.}
pipeline:
  source: {kafka: {topics: ["${param.topic}"]}}"""
_USE = "template: {name: landing, version: %s, parameters: {%s}}\n" + _LANDING
_KAFKA = "connections:\n  kafka: {main: {bootstrap.servers: broker:9092%s}}\n  catalog: {default: {type: rest, uri: http://catalog}}"
_AUTH = (
    "connections:\n  kafka: {main: {bootstrap.servers: broker:9092}}\n"
    "  catalog: {default: {type: rest, uri: http://catalog, auth: {%s}}}"
)

ENTRIES = (
    Code(
        "FLOE-C601",
        "The template cannot be rendered",
        "A `#%` line or an expression in `{{ }}` is not valid Jinja, or fails. Only some filters are allowed, and templates have no access to files, the environment or the clock.",
        "x-notes:\n#% for name in\n  - a\n#% endfor",
        'variables: {names: [a, b]}\nx-notes:\n#% for name in var.names\n  - "{{ name }}"\n#% endfor',
    ),
    Code(
        "FLOE-C602",
        "A template uses a name that does not exist",
        "Templates see `var` in pipeline files and `param` in template files, and nothing else.",
        'variables: {region: eu}\nx-notes: "{{ var.regoin }}"',
        'variables: {region: eu}\nx-notes: "{{ var.region }}"',
    ),
    Code(
        "FLOE-C603",
        "An include leaves the folder",
        "Included files must be in the folder of the first file or below it, under their real names, so that a review sees everything that takes part.",
        '#% include "../secrets.yaml"',
        '#% include "part.yaml"\n# file: part.yaml\nx-notes: included',
    ),
    Code(
        "FLOE-C604",
        "Templates include each other in a circle",
        "The message shows the circle.",
        '#% include "a.yaml"\n# file: a.yaml\n#% include "b.yaml"\n# file: b.yaml\n#% include "a.yaml"',
        '#% include "a.yaml"\n# file: a.yaml\n#% include "b.yaml"\n# file: b.yaml\nx-notes: the end',
    ),
    Code(
        "FLOE-C605",
        "A template or included file is not found",
        "A template is found by name in a folder `templates/` beside the pipeline file or above it, by its path, or as `package:name` in an installed package.",
        "template: {name: landnig, version: 1}",
        _USE % ("1", "topic: orders"),
    ),
    Code(
        "FLOE-C606",
        "Block tags are not supported",
        "`{% %}` is not YAML, so editors could not check the file. A line that begins with `#%` does the same, and to YAML it is a comment.",
        "variables: {names: [a]}\nx-notes: {% for name in var.names %}",
        'variables: {names: [a]}\nx-notes:\n#% for name in var.names\n  - "{{ name }}"\n#% endfor',
    ),
    Code(
        "FLOE-C607",
        "A template is not YAML before it is rendered",
        "Put expressions in quotes, so that editors and checks can read the file as it is written.",
        "variables: {region: eu}\nx-notes: {{ var.region }}: a",
        'variables: {region: eu}\nx-notes: {"{{ var.region }}": a}',
    ),
    Code(
        "FLOE-C608",
        "A value could leave its quotes",
        "A value with quotes, backslashes or line ends inside `{{ }}` could change the structure of the file. `${var.NAME}` is for values: it is filled in after the file is read.",
        'variables: {note: \'say "hi"\'}\nx-notes: "{{ var.note }}"',
        'variables: {note: \'say "hi"\'}\nx-notes: "${var.note}"',
    ),
    Code(
        "FLOE-C609",
        "Unknown parameter",
        "The template has no such parameter.",
        _USE % ("1", "topic: orders, tpoic: orders"),
        _USE % ("1", "topic: orders"),
    ),
    Code(
        "FLOE-C610",
        "A template does too much",
        "A template may produce 4 MiB of text and loop 100,000 times. More is a mistake.",
        "#% for i in range(10000000)\n#% endfor\nx-notes: a",
        "#% for i in range(10)\n#% endfor\nx-notes: a",
    ),
    Code(
        "FLOE-C611",
        "A parameter is missing",
        "The parameter has no default, so the pipeline must give it.",
        _USE % ("1", ""),
        _USE % ("1", "topic: orders"),
    ),
    Code(
        "FLOE-C612",
        "Another version of the template",
        "A pipeline says which version of the template it was written for: `1` takes any 1.x.y, `1.2` any 1.2.y. If the first number differs, you must change something by hand.",
        _USE % ("2", "topic: orders"),
        _USE % ('"1.2"', "topic: orders"),
    ),
    Code(
        "FLOE-C613",
        "A template has no tests",
        "A template is checked through its own `tests:`; each test uses it with parameters. Without tests, mistakes show only when somebody uses the template. A warning.",
        transcript=Transcript(
            "validate templates/landing.yaml",
            "the template has no tests, so what it produces was not checked",
            "templates/landing.yaml:3:1",
            "add `tests:` with the parameters of at least one use",
            (
                "# Add to the template, with parameters of its own:  tests: [{name: orders, parameters: {topic: orders}}]",
                "floe validate templates/landing.yaml",
            ),
            ShownAs.WARNING,
        ),
    ),
    Code(
        "FLOE-C614",
        "A locked library is not here, or is not what was locked",
        "A template of a library is read only from the user's cache, and only if its text has the hash that `floe.lock` names. `floe templates lock` fetches what the lock names; nothing else does. If the tag is another commit now, it refuses (FLOE-C616).",
        transcript=Transcript(
            "validate pipelines",
            "the library `acme` is locked and not on this machine",
            "pipelines/orders.yaml:4:17",
            "run `floe templates lock`, which fetches what the lock names",
            ("floe templates lock", "floe validate pipelines"),
            ShownAs.FINDING,
        ),
    ),
    Code(
        "FLOE-C615",
        "floe.lock cannot be used",
        "`floe templates lock` and `floe templates update` write the file. It was changed by hand or merged badly, or a newer version of floe wrote it.",
        transcript=Transcript(
            "templates lock",
            "there is no lock of templates",
            "floe.lock",
            "add a library: `floe templates lock NAME URL --tag TAG`",
            ("floe templates lock acme https://git.example.com/acme/templates --tag v2.0.0",),
        ),
    ),
    Code(
        "FLOE-C616",
        "A tag has moved",
        "The repository's tag is another commit, or the commit has other texts, than when it was locked. Somebody published the version again. Ask its owners; `floe templates update` takes the tag as it is now.",
        transcript=Transcript(
            "templates lock",
            "the tag v2 of `acme` is not what was locked: commit 9d1c0e4, not 3f2a7b1",
            "floe.lock",
            "ask the owners why; `floe templates update acme@2` takes it as it is now",
            (
                "# Ask the owners first. This takes the tag as it is now.",
                "floe templates update acme@2",
            ),
        ),
    ),
    Code(
        "FLOE-C617",
        "There is no list to add to",
        "`NAME+` adds items to a list of the template, or, in a target's overrides, to one of the pipeline file. Here there is no such list, it is a reference, or the same file also writes the list itself.",
        "source: {kafka: {topics+: [refunds]}}",
        "source: {kafka: {topics+: [refunds]}}\n" + _USE % ("1", "topic: orders"),
    ),
    Code(
        "FLOE-C701",
        "There is no such target",
        "Targets are `targets/NAME.yaml` beside the pipeline file or above it, or a path. `local` needs no file.",
        "validate base.yaml --target prodction",
        "validate base.yaml --target local",
        "command",
    ),
    Code(
        "FLOE-C702",
        "A setting that floe sets",
        "Group, transactional id, isolation and offset handling belong to the protocol that makes commits exact. Spark's time zone is UTC, and its SQL reads no variables of the machine, so that a statement means the same everywhere.",
        _KAFKA % ", group.id: mine",
        _KAFKA % "",
        "target",
    ),
    Code(
        "FLOE-C703",
        "A setting of the Java client",
        "Connections hold librdkafka's settings. Some of their names differ from the Java client's.",
        _KAFKA % ", ssl.truststore.location: /etc/ca.jks",
        _KAFKA % ", ssl.ca.location: /etc/ca.pem",
        "target",
    ),
    Code(
        "FLOE-C704",
        "A setting that its client does not know",
        'floe has the lists of the settings that librdkafka, PyIceberg and Spark know, in the versions that it is tested with. A client passes over other settings or refuses them at the start. Let a setting of a plugin or of another version through by name or pattern: `allow: {settings: ["spark.openlineage.*"]}` in the target.',
        _KAFKA % ", security.protocl: ssl",
        _KAFKA % ", security.protocol: ssl",
        "target",
    ),
    Code(
        "FLOE-C705",
        "A value that the client does not take",
        "librdkafka takes some words, or whole numbers between two bounds, for this setting. The remedy lists them.",
        _KAFKA % ", security.protocol: sasl-ssl",
        _KAFKA % ", security.protocol: sasl_ssl",
        "target",
    ),
    Code(
        "FLOE-C706",
        "Not a master of Spark",
        "`spark.master` says where the session runs: `local[2,4]`, `spark://HOST:PORT`, `k8s://HOST:PORT` or `yarn`.",
        _KAFKA % "" + "\nspark: {master: yarnn}",
        _KAFKA % "" + "\nspark: {master: yarn}",
        "target",
    ),
    Code(
        "FLOE-C707",
        "Not an address to listen at",
        "`monitoring.listen` is a host or an address, a colon and a port. An IPv6 address stands in brackets.",
        "monitoring: {listen: localhost}",
        'monitoring: {listen: "localhost:9464"}',
        "target",
    ),
    Code(
        "FLOE-C708",
        "Metrics for everybody",
        "Whoever reaches the address can read the names of pipelines, topics and tables. Off loopback every request needs a token.",
        'monitoring: {listen: "0.0.0.0:9464"}',
        'monitoring: {listen: "0.0.0.0:9464", token: "${secret:env:FLOE_METRICS_TOKEN}"}',
        "target",
    ),
    Code(
        "FLOE-C709",
        "Not an address that the client takes",
        "Brokers are `host:port`; REST catalogs, registries and the Pushgateway are http or https; a Hive metastore is `thrift://`; a database is SQLAlchemy's form; a location names its scheme.",
        "monitoring: {pushgateway: pushgateway:9091}",
        'monitoring: {pushgateway: "http://pushgateway:9091"}',
        "target",
    ),
    Code(
        "FLOE-C710",
        "Nowhere to send lineage events",
        "`lineage` names one place: a file, the address of a server (`http` or `https`), or a topic on one of the target's Kafka connections.",
        'lineage: {http: "ftp://marquez:5000/api/v1/lineage"}',
        'lineage: {http: "https://marquez:5000/api/v1/lineage"}',
        "target",
    ),
    Code(
        "FLOE-C711",
        "A token that everybody on the way can read",
        "Over http the token of a lineage server is sent as it is. Only to this machine itself that is no harm.",
        'lineage: {http: "http://marquez:5000/api/v1/lineage", token: "${secret:env:LINEAGE_TOKEN}"}',
        'lineage: {http: "https://marquez:5000/api/v1/lineage", token: "${secret:env:LINEAGE_TOKEN}"}',
        "target",
    ),
    Code(
        "FLOE-C712",
        "A target whose name is not its file's",
        "`--target` finds a target by its file's name, and a run keeps its state under the name inside. With two names a person looks in the wrong place, and two targets of one name share their state.",
        "metadata: {name: production}",
        "metadata: {name: local}",
        "target",
    ),
    Code(
        "FLOE-C713",
        "`auth` or `ssl` that is not read as it is written",
        "`auth` and `ssl` of a REST catalog are mappings, and PyIceberg does not read them for other catalogs. `auth` names one way, and beside it the mapping of that way: `basic`, `oauth2`, `google` or `entra`. PyIceberg passes over what belongs to another way, and reads `credential`, `token` and `scope` only without `auth`. A way that names a Python class is refused, also under `allow.settings`: nothing in a file may import code. `auth` of a Kafka connection makes tokens itself, so that `sasl.*` beside it are not read; without it `sasl.mechanism: OAUTHBEARER` needs `sasl.oauthbearer.method: oidc`. A schema registry's key goes with its certificate, and both with `https://`.",
        _AUTH % "type: custom, impl: acme.Login",
        _AUTH % 'type: basic, basic: {username: floe, password: "${secret:env:CATALOG_PASSWORD}"}',
        "target",
    ),
    Code(
        "FLOE-C714",
        "An archive of the control log in a catalog that is not there",
        "`log.archive` names a table; one in a catalog other than `default` has the catalog's name before it, as `connections.catalog` of the target has it.",
        'log: {archive: "colt:ops.control_log"}',
        "log: {archive: ops.control_log}",
        "target",
    ),
)
