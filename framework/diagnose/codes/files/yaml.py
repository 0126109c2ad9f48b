"""FLOE-C0xx and C1xx: reading a file and its YAML."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import ShownAs, Transcript

ENTRIES = (
    Code(
        "FLOE-C001",
        "A file is wrong",
        "One or more files have errors. Each error is listed with its own code. Nothing was run.",
        transcript=Transcript(
            "render orders.yaml",
            "the file is empty",
            "orders.yaml:1:1",
            "begin with `apiVersion: floe/v1`",
            (
                "# Each finding has a code of its own. Programs that embed floe get FLOE-C001 for all of them together.",
                "floe validate orders.yaml",
            ),
            ShownAs.FINDING,
            printed="FLOE-C110",
        ),
    ),
    Code(
        "FLOE-C002",
        "The command line is wrong",
        "An option does not exist, lacks its value, or has one that it does not take. `floe VERB --help` lists what the verb takes. Programs read this code in the document that `--json` prints.",
        "plan base.yaml --jsn --json",
        "validate base.yaml",
        "command",
    ),
    Code(
        "FLOE-C101",
        "The file cannot be read",
        "The path names no file, the file is not readable, or it is larger than 4 MiB.",
        "validate no-such-file.yaml",
        "validate base.yaml",
        "command",
    ),
    Code(
        "FLOE-C102",
        "The file is not text",
        "Files are UTF-8 without control characters. In most editors the setting is called encoding.",
        transcript=Transcript(
            "validate orders.yaml",
            "the file is not UTF-8 text: byte 212 is not",
            "orders.yaml:1:1",
            "save it as UTF-8",
            (
                "iconv -f ISO-8859-1 -t UTF-8 orders.yaml > orders.utf8 && mv orders.utf8 orders.yaml",
                "floe validate orders.yaml",
            ),
            ShownAs.FINDING,
        ),
    ),
    Code(
        "FLOE-C103",
        "The text is not YAML",
        "The line cannot be read. Usual causes: indentation that fits no line before it, a quote or bracket that is not closed, and text with `: ` in it that needs quotes.",
        "metadata:\n  name: orders\n owner: shop",
        "metadata:\n  name: orders\n  owner: shop",
    ),
    Code(
        "FLOE-C104",
        "A tab is used for indentation",
        "YAML indents with spaces only. Most editors have a setting that turns the tab key into spaces.",
        "metadata:\n\tname: orders",
        "metadata:\n  name: orders",
    ),
    Code(
        "FLOE-C105",
        "A key is written twice",
        "Many YAML readers silently keep the second one. floe refuses both, since one of them must be a mistake.",
        "metadata: {name: orders, name: refunds}",
        "metadata: {name: orders}",
    ),
    Code(
        "FLOE-C106",
        "A key is not a word",
        "Keys are text. If a list or a mapping appears as a key, braces or brackets usually lack quotes.",
        "x-notes: {[a, b]: c}",
        'x-notes: {"a, b": c}',
    ),
    Code(
        "FLOE-C107",
        "The file is nested too deeply or too large",
        "A file may have 100 levels and 50,000 values. An alias (`*name`) that contains itself would never end.",
        "x-notes: &loop [*loop]",
        "x-notes: [a]",
    ),
    Code(
        "FLOE-C108",
        "A YAML tag is used",
        "These files do not use tags such as `!!str`. Quotes turn a value into text; nothing else needs a tag.",
        "metadata: {name: !!str orders}",
        'metadata: {name: "orders"}',
    ),
    Code(
        "FLOE-C109",
        "A file holds more than one document",
        "A line of three dashes begins another YAML document. Each pipeline is a file of its own, so that each can be reviewed and run alone.",
        "x-notes: a\n---\nx-notes: b",
        "x-notes: a",
    ),
    Code(
        "FLOE-C110",
        "The file is empty",
        "The file holds nothing, or comments only.",
        transcript=Transcript(
            "validate orders.yaml",
            "the file is empty",
            "orders.yaml:1:1",
            "begin with `apiVersion: floe/v1`",
            (
                "rm orders.yaml",
                "floe init orders --topic orders --table shop.orders",
            ),
            ShownAs.FINDING,
        ),
    ),
    Code(
        "FLOE-C111",
        "A merge key is used",
        "`<<` is an extension of YAML 1.1 that readers treat differently. Put shared parts in a template.",
        "x-base: &base {a: b}\nx-notes: {<<: *base}",
        "x-base: {a: b}\nx-notes: {a: b}",
    ),
    Code(
        "FLOE-C112",
        "A number is not finite",
        "`.inf` and `.nan` are valid YAML numbers, but have no meaning here.",
        "errors: {dead_letter_table: shop.dead_letters, max_ratio: .inf}",
        "errors: {dead_letter_table: shop.dead_letters, max_ratio: 0.5}",
    ),
    Code(
        "FLOE-C113",
        "There is no file to check",
        "The folder holds no file of floe, in it or below it, so nothing was checked. A mistyped path must not look like files without mistakes. floe's files are *.yaml or *.yml and begin with `apiVersion: floe/v1`; files of other tools are left alone, and `floe validate -v` names them.",
        transcript=Transcript(
            "validate piplines",
            "the folder holds no floe file",
            "piplines:1:1",
            "check the path; floe's files are *.yaml or *.yml and begin with `apiVersion: floe/v1`",
            (
                "# Name the folder that holds the files. -v lists the files of other tools that were left alone.",
                "floe validate pipelines -v",
            ),
            ShownAs.FINDING,
        ),
    ),
)
