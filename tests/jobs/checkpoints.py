"""Checkpoints of Spark, written by hand as Spark writes them."""

import json

from tidegate.alignment.plan import Progress
from tidegate.enumerators.planning.offset import Offset


def log_batch(folder, number, positions, *, source="kafka", state=None, committed=True, version=1, others=()):
    """Store the end of a batch.

    others: offsets of other sources of the query, as text.
    """
    end = json.dumps(Offset(source, Progress(positions), enumerator=state).to_json())
    for name, lines in (("offsets", [json.dumps({"conf": {"a": "{}"}}), *others, end]), ("commits", ["{}"])):
        if name == "commits" and not committed:
            continue
        kept = [
            f"{at - 1}:{line}" if version == 2 and at and name == "offsets" else line for at, line in enumerate(lines)
        ]
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / str(number)).write_text("\n".join([f"v{version}", *kept]))
