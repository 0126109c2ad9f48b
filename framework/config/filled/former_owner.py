"""`metadata.owner`, which the first release had, read as what it is now: the team of `owners.pipeline`.

In: the tree of a pipeline file. Out: the tree with the current word, at the place where the former one was written.
"""

from __future__ import annotations

from framework.config.filled.overlay import lay_over, without
from framework.config.tree import Entry, Mapping, Scalar, find


def with_owners(tree: Mapping, former_wins: bool = False) -> Mapping:
    """The tree without the former word.

    Args:
        former_wins: it stands over `owners.pipeline`, as `--set metadata.owner=TEAM` does; else that stands over it.
    """
    metadata = tree.get("metadata")
    former = metadata.entry("owner") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or former is None or not _is_text(former):
        return tree  # what is wrong with it is said where it stands
    bare = without(metadata, "owner")
    rest = Mapping(tuple(Entry(e.key, e.key_span, bare) if e.value is metadata else e for e in tree.entries), tree.span)
    if find(rest, ("owners", "pipeline")) is not None and not former_wins:
        return rest
    said = Mapping((Entry("pipeline", former.key_span, former.value),), former.key_span)
    if (owners := rest.get("owners")) is not None:
        said_too = Entry("owners", former.key_span, lay_over(owners, said))
        return Mapping(tuple(said_too if e.key == "owners" else e for e in rest.entries), rest.span)
    new = Entry("owners", former.key_span, said)
    return Mapping(tuple(e for old in rest.entries for e in ((old, new) if old.value is bare else (old,))), rest.span)


def _is_text(entry: Entry) -> bool:
    return isinstance(entry.value, Scalar) and isinstance(entry.value.value, str)
