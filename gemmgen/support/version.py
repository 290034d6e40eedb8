"""The version of the installed gemmgen, for records."""

from functools import cache
from importlib import metadata


@cache
def gemmgen_version() -> str:
    """ "0.1.0"; "0+source" if gemmgen runs from a checkout that is not installed."""
    try:
        return metadata.version("gemmgen")
    except metadata.PackageNotFoundError:
        return "0+source"
