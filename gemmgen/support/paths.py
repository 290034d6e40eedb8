"""The folder of the templates: beside the package in a checkout, inside it in an installed wheel."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]

TEMPLATES = next(folder for folder in (PACKAGE / "templates", PACKAGE.parent / "templates") if folder.is_dir())
