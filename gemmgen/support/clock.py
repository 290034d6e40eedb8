"""The time as records write it: UTC."""

from datetime import datetime, timezone


def now() -> str:
    """The date and time, to the second, in ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def today() -> str:
    """The date, in ISO 8601."""
    return datetime.now(timezone.utc).date().isoformat()
