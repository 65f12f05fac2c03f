"""Decides whether an archive holds records of the topic that Kafka has now.

The objects of other writers tell neither the id of their topic nor a leader epoch.  So such an archive passes for that
of another topic, and for whole once Kafka has written the lost offsets again.
"""

from __future__ import annotations

from tidegate.alignment.splits import SplitId
from tidegate.enumerators.archive.directory import Directory
from tidegate.errors import DataLossError, OptionError


def is_of_topic(directory: Directory, topic_id: str) -> bool:
    """Return whether no object has the id of another topic; an empty id is unknown."""
    return not topic_id or directory.topic_ids <= {topic_id}


def check_topic(directory: Directory, archive: str, split: SplitId, topic_id: str) -> None:
    """Raise OptionError if an archive holds another topic of the same name.

    archive: the option and the place, such as "archive is '/lake'".
    """
    if not is_of_topic(directory, topic_id):
        raise OptionError(
            f"{archive}, which holds records of {split} when the topic had the id "
            f"{min(directory.topic_ids - {topic_id})}; it was recreated as {topic_id}, and needs another place"
        )


def check_end(directory: Directory, archive: str, split: SplitId, kept: int) -> None:
    """Raise DataLossError if an archive passes the offset up to which Kafka has kept what it once had."""
    if directory.end > kept:
        raise DataLossError(
            f"{archive}, which holds {split} up to offset {directory.end - 1}, but Kafka has lost its records from "
            f"{kept} on, and gives their offsets to others; use another place"
        )
