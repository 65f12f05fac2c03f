"""Opens the folder that a location names."""

from __future__ import annotations

from tidegate.enumerators.folders.bucket import BucketFolder
from tidegate.enumerators.folders.contract import Folder
from tidegate.enumerators.folders.local import LocalFolder
from tidegate.errors import OptionError
from tidegate.readers.s3.address import local_path, s3_address
from tidegate.readers.s3.config import S3ConnectionConfig


def open_folder(
    location: str, config: S3ConnectionConfig, *, option: str = "stateLocation", noun: str = "state location"
) -> Folder:
    """Return the folder of a path, of a ``file:`` URL or of ``s3://bucket/prefix``; it need not exist yet.

    option, noun: for errors: the name of the location's option, and a noun for the location.

    Raises OptionError for any other location.
    """
    address = s3_address(location)
    if address is not None:
        if not address.bucket:
            raise OptionError(f"{option} is {location!r}, which names no bucket")
        return BucketFolder(config, address.folder, noun)
    if not location.lower().startswith("file:") and ("://" in location or not location.strip()):
        raise OptionError(f"{option} is {location!r}; it must be a path, or s3://bucket/prefix")
    return LocalFolder(local_path(location), noun)
