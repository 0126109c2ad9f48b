"""Every verb, by what a person is about: its module and command object, and its one-line help, shown without importing it.

Invariant: a verb stands in one group. The order is that of `floe --help` and of the reference.
"""

from __future__ import annotations

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Write": {
        "init": ("framework.cli.write.init:init", "Write a new pipeline file, from answers or from real records."),
        "import-connector": (
            "framework.cli.write.import_connector:import_connector_command",
            "Turn an Iceberg sink of Kafka Connect into a pipeline file.",
        ),
        "render": (
            "framework.cli.write.render:render_command",
            "Print a file with templates, target and variables filled in.",
        ),
        "migrate": (
            "framework.cli.write.migrate:migrate_command",
            "Update files to the current version of their format.",
        ),
        "schema": ("framework.cli.write.schema:schema", "Print a JSON Schema for editors."),
        "lsp": ("framework.cli.write.lsp:lsp", "Serve an editor: findings while you type, explanations, templates."),
        "completion": ("framework.cli.write.completion:completion", "Print a shell's completion script."),
        "docs": ("framework.cli.write.docs:docs", "Write the reference as Markdown pages."),
    },
    "Check": {
        "validate": ("framework.cli.check.validate:validate", "Check pipeline files without a cluster."),
        "test": ("framework.cli.check.test_verb:test", "Run the tests inside pipeline files, without Kafka."),
        "templates": (
            "framework.cli.check.templates:templates",
            "List, describe and test shared templates; lock libraries of them.",
        ),
        "plan": ("framework.cli.check.plan:plan", "Show what a run would do, before you run it."),
        "diff": ("framework.cli.check.diff:diff", "Show what differs from what was deployed."),
        "graph": ("framework.cli.check.graph:graph", "Draw topics, pipelines and tables as Mermaid, DOT or SVG."),
        "doctor": (
            "framework.cli.check.doctor:doctor",
            "Check this machine and a target, line by line, with remedies.",
        ),
        "readiness": (
            "framework.cli.check.readiness:readiness",
            "Answer a migration review live, with evidence: go or no go.",
        ),
        "drill": (
            "framework.cli.run.drill:drill",
            "Try crashes, outages and losses on a target, and check every row.",
        ),
        "explain": ("framework.cli.check.explain:explain", "Explain an error code, and show how to repair it."),
    },
    "Run": {
        "run": ("framework.cli.run.run:run", "Run pipelines."),
        "coordinator": ("framework.cli.run.coordinator:coordinator", "Run the commit coordinator alone."),
        "submit": ("framework.cli.run.submit:submit", "Run pipelines on a cluster through spark-submit."),
        "deploy": ("framework.cli.run.deploy:deploy", "Roll out a folder of pipelines, and show what runs."),
        "package": ("framework.cli.run.package:package", "Build the archive of Python packages that `submit` ships."),
        "local": ("framework.cli.run.local:local", "Start, stop and fill the embedded broker and catalog."),
        "demo": ("framework.cli.run.demo:demo", "Run the demonstration."),
    },
    "Watch": {
        "status": ("framework.cli.watch.status:status", "Show what is read, announced and committed."),
        "top": ("framework.cli.watch.top:top", "Show live what is in trouble, what lags, and what waits."),
        "ops": ("framework.cli.watch.ops:ops", "Serve a web page of what runs, and a REST interface."),
        "tap": ("framework.cli.watch.tap:tap", "Show live records as a run would decode, route and write them."),
        "compare": ("framework.cli.watch.compare:compare", "Say whether two tables hold the same rows."),
        "cost": ("framework.cli.watch.cost:cost", "Show what a pipeline uses and costs in a month."),
        "log": ("framework.cli.watch.log:log", "Print the control topic as a commit log."),
        "pause": ("framework.cli.watch.pause:pause", "Pause the reading of pipelines or the commits of tables."),
        "resume": ("framework.cli.watch.pause:resume", "Resume what was paused."),
        "stop": ("framework.cli.watch.stop:stop", "Ask a pipeline's live run, wherever it is, to drain and end."),
    },
    "Repair": {
        "dlq": ("framework.cli.repair.dlq:dlq", "Look at dead letters, and replay them."),
        "maintain": (
            "framework.cli.repair.maintain:maintain",
            "Keep tables healthy: expire snapshots, remove what nobody needs.",
        ),
        "clean": (
            "framework.cli.repair.clean:clean",
            "Find files that no table and no announcement names, and remove them.",
        ),
        "offsets": (
            "framework.cli.repair.offsets:offsets",
            "Show a pipeline's source offsets everywhere, or move them.",
        ),
        "rebase": ("framework.cli.repair.rebase:rebase", "Let a pipeline go on from what its tables hold."),
        "replay": ("framework.cli.repair.replay:replay", "Read source ranges again for one table."),
        "rollback": ("framework.cli.repair.rollback:rollback", "Roll a table back to an older snapshot."),
        "discard": ("framework.cli.repair.discard:discard", "Give up what waits for a table that can never take it."),
    },
}
VERBS = {name: verb for group in GROUPS.values() for name, verb in group.items()}
