"""Which gemmgen this is, for records: the installed distribution's version."""

from functools import cache
from importlib import metadata


@cache
def gemmgen_version() -> str:
    """ "0.1.0"; "0+source" where gemmgen runs from a checkout that nobody installed."""
    try:
        return metadata.version("gemmgen")
    except metadata.PackageNotFoundError:
        return "0+source"
