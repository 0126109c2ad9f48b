"""FLOE-P: a plan is not what was reviewed, or takes something away that nobody has allowed; exit code 2. FLOE-R41x: deployed
applications that do not run."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

ENTRIES = (
    Code(
        "FLOE-P001",
        "The plan is not the reviewed one",
        "`--plan` names a file with the hash of what was reviewed, and the files, the target or floe itself give another one now. Both hashes are shown, and the first difference where the file holds the whole plan. Nothing was started.",
    ),
    Code(
        "FLOE-P002",
        "`--allow` names no danger",
        "Only the codes of dangerous changes can be allowed, each by its name; there is no word that allows all.",
    ),
    Code(
        "FLOE-P003",
        "Drivers in the cluster are not deployed from here",
        "`floe deploy` supervises drivers on the machine where it runs: it starts, drains and restarts them. A target with `spark.submit.deployMode: cluster` hands them to the cluster, which does that itself.",
    ),
    Code(
        "FLOE-P004",
        "There is no pipeline file",
        "The folder holds no *.yaml file of `kind: Pipeline`, in it or below it. Targets and templates are not run by themselves.",
    ),
    Code(
        "FLOE-P101",
        "A rule is removed",
        "A rule of `routes` that was deployed is gone while its table is still written by another rule. Its records go wherever the rules that are left send them, or are unrouted.",
    ),
    Code(
        "FLOE-P102",
        "A table is no longer written",
        "No rule names the table any more. What is announced for it is still committed; the table stays, and its last row is the last one.",
    ),
    Code(
        "FLOE-P103",
        "A commit interval is raised tenfold or more",
        "Readers see new rows that much later. An hour is easily written where a second was meant.",
    ),
    Code(
        "FLOE-P104",
        "`starting_offsets` is changed after the first run",
        "It says where a pipeline begins that has never run. One that has run goes on at its safe offsets, so the change does nothing. To read again, see docs/operations.md.",
    ),
    Code(
        "FLOE-P105",
        "Lost records no longer stop the pipeline",
        "`on_data_loss` was `fail`. Records that retention removed before they were read are now passed over and recorded as a gap.",
    ),
    Code(
        "FLOE-P106",
        "Records are dropped that were kept or stopped the pipeline",
        "`errors.policy` or `routes.unrouted` becomes `drop`: such records are counted and forgotten, and their bytes are kept nowhere.",
    ),
    Code(
        "FLOE-P107",
        "The pipeline begins anew under another name",
        "The consumer group is named after the target's prefix and the pipeline, so a new name or prefix has no position: it starts where `starting_offsets` says, beside a deployed pipeline that reads the same topics into a same table. Rows that are there come again.",
    ),
    Code(
        "FLOE-P108",
        "A deployed pipeline is in no file any more",
        "`floe deploy` found a pipeline of this deployment that the folder no longer holds. It is stopped only with `--allow-remove`; its tables and its position stay.",
    ),
    Code(
        "FLOE-P109",
        "A table moves to another catalog",
        "`catalog` in `tables` says another catalog for it than what was deployed. New rows go to a table of that name there; the old table stays with the rows it has, and is not written any more. What was announced for it is still committed.",
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
        "`floe deploy` keeps what it has started in `run/` of the state directory. A file there is not what was written.",
    ),
    Code(
        "FLOE-R411",
        "A deployed application does not run",
        "It ended, or told nothing on the control topic in time. The end of its log is in the message. Its supervisor starts it again after failures that may pass; deploying again is safe.",
    ),
)
