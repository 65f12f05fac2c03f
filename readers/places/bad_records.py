"""Writes files of bad records to a folder or a bucket."""

from __future__ import annotations

from io import BytesIO

from tidegate.readers.bad_record_files import BadRecordFiles
from tidegate.readers.places.place import Place

_TRIAL = "_writable"  # Spark's readers leave out files whose names begin with "_"


class BadRecordFolder(Place):
    """A folder or a bucket for bad records."""

    def files(self, name: str) -> BadRecordFiles:
        """Return the files whose names begin with ``name``."""
        return BadRecordFiles(name, lambda file, data, _: self.write(file, data))

    def write(self, name: str, data: bytes) -> None:
        """Write a file as a whole: other processes see all of it, or nothing.

        Raises ConnectorError or OptionError if the location cannot be written, and DeadlineError if it does not answer.
        """
        self.put(name, BytesIO(data), noun="bad records")

    def check(self) -> None:
        """Raise the errors of ``write`` if nothing can be written here.  Called on the driver, before a query begins.

        Makes the folder if there is none.  In a bucket, an empty object stays, since the role may lack the right to
        delete it.
        """
        self.put(_TRIAL, BytesIO(), noun="bad records", keep=False)
