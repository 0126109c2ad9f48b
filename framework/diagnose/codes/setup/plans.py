"""FLOE-P: a plan is not the reviewed one, or takes something away without permission; the exit code is 2."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import Transcript


def _breaking(code: str, message: str, *repairs: str, place: str = "pipeline orders") -> Transcript:
    """A run that does not begin, since nobody has allowed the change."""
    usual = ("# If it is meant:", f"floe run orders.yaml -t prod --allow {code}")
    return Transcript(
        "run orders.yaml -t prod",
        message,
        place,
        f"look at `floe plan`; if this is meant, --allow {code}",
        (
            "# Look at all changes; if this one is not meant, put the old words back into the file.",
            "floe plan orders.yaml -t prod",
            *(repairs or usual),
        ),
    )


ENTRIES = (
    Code(
        "FLOE-P001",
        "The plan is not the reviewed one",
        "`--plan` names a file with the hash of what was reviewed. The files, the target or floe itself now give a different hash. Both hashes are shown, and the first difference too if the file holds the whole plan. Nothing was started.",
        transcript=Transcript(
            "run orders.yaml -t prod --plan reviewed.json",
            "the files give sha256:9f2c41d07b3e, but sha256:1ab0c77e52d9 was reviewed",
            "reviewed.json",
            "review `floe plan` again, and save what you reviewed with `floe plan --out FILE`",
            (
                "floe plan orders.yaml -t prod --out reviewed.json",
                "floe run orders.yaml -t prod --plan reviewed.json",
            ),
        ),
    ),
    Code(
        "FLOE-P002",
        "`--allow` names no breaking change",
        "`--allow` takes the codes of dangerous changes, one by one. Nothing allows all of them at once.",
        transcript=Transcript(
            "run orders.yaml -t prod --allow all",
            "`--allow all` allows nothing",
            "--allow",
            "the codes that can be allowed are FLOE-P101, FLOE-P102, FLOE-P103, FLOE-P104, FLOE-P105, FLOE-P106, FLOE-P107, FLOE-P108, FLOE-P109, FLOE-P110, FLOE-P111, FLOE-P112; `floe plan` shows which are needed",
            (
                "floe plan orders.yaml -t prod",
                "floe run orders.yaml -t prod --allow FLOE-P103",
            ),
        ),
    ),
    Code(
        "FLOE-P101",
        "A rule is removed",
        "A deployed rule of `routes` is gone, but another rule still writes its table. The remaining rules decide where its records go; if none takes them, they are unrouted.",
        transcript=_breaking(
            "FLOE-P101",
            'routes.rules: shop.orders when type == "gift" is removed: records that this rule sent to shop.orders go wherever the remaining rules send them',
        ),
    ),
    Code(
        "FLOE-P102",
        "A table is no longer written",
        "No rule names the table any more. What is announced for it is still committed. The table stays, but gets no more rows.",
        transcript=_breaking(
            "FLOE-P102",
            "table shop.refunds written -> not written: nothing more is written to shop.refunds; what is announced for it is still committed, and it is not dropped",
        ),
    ),
    Code(
        "FLOE-P103",
        "A commit interval is raised tenfold or more",
        "Readers see new rows that much later. It is easy to write `h` where `s` was meant.",
        transcript=_breaking(
            "FLOE-P103",
            "tables.defaults.commit.interval 30s -> 30h: readers see new rows up to 30h late, 3600 times as late as now",
        ),
    ),
    Code(
        "FLOE-P104",
        "`starting_offsets` is changed after the first run",
        "`starting_offsets` applies only to a pipeline that has never run. This one has run and goes on at its safe offsets, so the change does nothing. To read again, see docs/operations.md.",
        transcript=_breaking(
            "FLOE-P104",
            "source.kafka.starting_offsets latest -> earliest: the pipeline has run and goes on at its safe offsets, so this only misleads whoever reads the file",
            "# To read records again, leave the key as it was and read them for the table that lacks them:",
            "floe replay orders.yaml --table shop.orders --from orders:0=1200 --to orders:0=1300 -t prod",
        ),
    ),
    Code(
        "FLOE-P105",
        "Lost records no longer stop the pipeline",
        "`on_data_loss` was `fail`. Now the pipeline skips records that retention removed before it read them, and records a gap.",
        transcript=_breaking(
            "FLOE-P105",
            "source.kafka.on_data_loss fail -> skip_and_record: records that retention removed before they were read are skipped instead of stopping the pipeline",
        ),
    ),
    Code(
        "FLOE-P106",
        "Records are dropped that were kept or stopped the pipeline",
        "`errors.policy` or `routes.unrouted` becomes `drop`: such records are counted, and their bytes are not kept anywhere.",
        transcript=_breaking(
            "FLOE-P106", "errors.policy dead_letter -> drop: such records are only counted; their bytes are not kept"
        ),
    ),
    Code(
        "FLOE-P107",
        "The pipeline starts over under another name",
        "The consumer group is named after the target's prefix and the pipeline, so a new name or prefix has no position and starts where `starting_offsets` says. A deployed pipeline already reads the same topics into one of the same tables, so rows are written twice.",
        transcript=_breaking(
            "FLOE-P107",
            "metadata.name orders -> orders-v2: a new name or prefix is a new consumer group: it starts at earliest, and rows that are already in the tables are written again; first stop the other one for good",
            "# To go on where the old one is, keep its name. If a second reading is meant, end the old one first:",
            "floe stop orders -t prod",
            "floe run orders.yaml -t prod --allow FLOE-P107",
            place="pipeline orders-v2",
        ),
    ),
    Code(
        "FLOE-P108",
        "A deployed pipeline is no longer in any file",
        "A pipeline of the folder's deployment is in no file any longer: its file was deleted, or it has another name. `floe plan` and `floe diff` name it. `floe deploy` stops it only with `--allow-remove`, `--allow FLOE-P108` or a saved plan that allows it; its tables and its position stay.",
        transcript=Transcript(
            "deploy pipelines -t prod",
            "orders was deployed, but no file holds it any longer",
            "orders",
            "to stop it, add --allow-remove (or --allow FLOE-P108); its tables and its position stay",
            (
                "# Put the file back, or, if the pipeline is to end:",
                "floe deploy pipelines -t prod --allow-remove",
            ),
        ),
    ),
    Code(
        "FLOE-P109",
        "A table moves to another catalog",
        "`catalog` in `tables` names a different catalog than the one deployed. New rows go to a table of that name there. The old table keeps its rows and gets no more. What was announced for it is still committed.",
        transcript=_breaking(
            "FLOE-P109",
            "table shop.orders in catalog default -> in catalog cold: new rows go to a table there; the old table stays as it is and gets no more rows",
        ),
    ),
    Code(
        "FLOE-P110",
        "A table is written in another mode",
        "`write.mode` of a table was `append` and becomes `upsert`, or the other way round. From append to upsert, records replace and delete rows that are there; two rows of one key that are there already block the table. From upsert to append, records of a key that is there become further rows of it.",
        transcript=_breaking(
            "FLOE-P110",
            "tables.defaults.write.mode append -> upsert: records replace and delete rows that are there; two rows of one key that are there block the table",
        ),
    ),
    Code(
        "FLOE-P111",
        "The key of an upsert table changes",
        "Rows that are there were made unique by the old key. By the new one several of them may be the same, which blocks the table; records that replaced one row may now add one.",
        transcript=_breaking(
            "FLOE-P111",
            "tables.defaults.write.key id -> id, region: rows that are there are unique by the old key; two that are one by the new key block the table",
        ),
    ),
    Code(
        "FLOE-P112",
        "The order of an upsert table changes",
        "Which record of a key is newer was said by the order of the source, or by another column. From a column to the source, the later record replaces a row whatever its value is. From the source to a column, rows are compared by their values of it, and keys that were deleted before may come back with an older record. From one column to another, the table blocks (FLOE-R146) until it is reported to forget its deleted keys.",
        transcript=_breaking(
            "FLOE-P112",
            "tables.defaults.write.order source -> updated_at: rows are compared by updated_at from now on; keys that were deleted before are not remembered",
        ),
    ),
)
