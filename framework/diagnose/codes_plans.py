"""FLOE-P: a plan is not the reviewed one, or takes something away without permission; exit code 2. FLOE-R41x: deployed
applications that do not run."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

ENTRIES = (
    Code(
        "FLOE-P001",
        "The plan is not the reviewed one",
        "`--plan` names a file with the hash of what was reviewed. The files, the target or floe itself now give a different hash. Both hashes are shown, and the first difference too if the file holds the whole plan. Nothing was started.",
    ),
    Code(
        "FLOE-P002",
        "`--allow` names no danger",
        "`--allow` takes the codes of dangerous changes, one by one. Nothing allows all of them at once.",
    ),
    Code(
        "FLOE-P003",
        "Drivers in the cluster are not deployed from here",
        "`floe deploy` supervises drivers on the machine where it runs: it starts, drains and restarts them. A target with `spark.submit.deployMode: cluster` hands them to the cluster, which does that itself.",
    ),
    Code(
        "FLOE-P004",
        "There is no pipeline file",
        "The folder holds no *.yaml or *.yml file of `kind: Pipeline`, in it or below it. Targets and templates are not run by themselves.",
    ),
    Code(
        "FLOE-P101",
        "A rule is removed",
        "A deployed rule of `routes` is gone, but another rule still writes its table. The remaining rules decide where its records go; if none takes them, they are unrouted.",
    ),
    Code(
        "FLOE-P102",
        "A table is no longer written",
        "No rule names the table any more. What is announced for it is still committed. The table stays, but gets no more rows.",
    ),
    Code(
        "FLOE-P103",
        "A commit interval is raised tenfold or more",
        "Readers see new rows that much later. It is easy to write `h` where `s` was meant.",
    ),
    Code(
        "FLOE-P104",
        "`starting_offsets` is changed after the first run",
        "`starting_offsets` applies only to a pipeline that has never run. This one has run and goes on at its safe offsets, so the change does nothing. To read again, see docs/operations.md.",
    ),
    Code(
        "FLOE-P105",
        "Lost records no longer stop the pipeline",
        "`on_data_loss` was `fail`. Now the pipeline skips records that retention removed before it read them, and records a gap.",
    ),
    Code(
        "FLOE-P106",
        "Records are dropped that were kept or stopped the pipeline",
        "`errors.policy` or `routes.unrouted` becomes `drop`: such records are counted, and their bytes are not kept anywhere.",
    ),
    Code(
        "FLOE-P107",
        "The pipeline starts over under another name",
        "The consumer group is named after the target's prefix and the pipeline, so a new name or prefix has no position and starts where `starting_offsets` says. A deployed pipeline already reads the same topics into one of the same tables, so rows are written twice.",
    ),
    Code(
        "FLOE-P108",
        "A deployed pipeline is no longer in any file",
        "A pipeline of the folder's deployment is in no file any longer: its file was deleted, or it has another name. `floe plan` and `floe diff` name it. `floe deploy` stops it only with `--allow-remove`, `--allow FLOE-P108` or a saved plan that allows it; its tables and its position stay.",
    ),
    Code(
        "FLOE-P109",
        "A table moves to another catalog",
        "`catalog` in `tables` names a different catalog than the one deployed. New rows go to a table of that name there. The old table keeps its rows and gets no more. What was announced for it is still committed.",
    ),
    Code(
        "FLOE-P110",
        "A table is written in another mode",
        "`write.mode` of a table was `append` and becomes `upsert`, or the other way round. From append to upsert, records replace and delete rows that are there; two rows of one key that are there already block the table. From upsert to append, records of a key that is there become further rows of it.",
    ),
    Code(
        "FLOE-P111",
        "The key of an upsert table changes",
        "Rows that are there were made unique by the old key. By the new one several of them may be the same, which blocks the table; records that replaced one row may now add one.",
    ),
    Code(
        "FLOE-R410",
        "The record of a deployed application is damaged",
        "`floe deploy` records what it has started in `run/` of the state directory. A file there was changed or cut off.",
    ),
    Code(
        "FLOE-R411",
        "A deployed application does not run",
        "It ended, or did not report on the control topic in time. The message holds the end of its log. Its supervisor restarts it after failures that may pass. Deploying again is safe.",
    ),
)
