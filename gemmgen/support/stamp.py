"""What records say of their origin: the version of gemmgen, and the time in UTC."""

from datetime import datetime, timezone
from functools import cache
from importlib import metadata


@cache
def gemmgen_version() -> str:
    """ "0.1.0"; "0+source" if gemmgen runs from a checkout that is not installed."""
    try:
        return metadata.version("gemmgen")
    except metadata.PackageNotFoundError:
        return "0+source"


def now() -> str:
    """The date and time, to the second, in ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def today() -> str:
    """The date, in ISO 8601."""
    return datetime.now(timezone.utc).date().isoformat()
