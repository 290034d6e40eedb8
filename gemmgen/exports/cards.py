"""The folders of generated/ per card: their names, the card of a folder, and the folders of one architecture.

Cards of one architecture run the same kernels at different speeds, so records of an H100 and of an H200 are separate.
A text that they share is on file once, in the folder of the card that stands for the architecture; each card's folder
has the record of its own measurements.
"""

from __future__ import annotations

import re
from pathlib import Path

from gemmgen.problem.device import DEVICES, LIKE, DeviceSpec, device_for, known_card, parse_arch, short_name

GALLERY = Path("generated")  # of a checkout, searched after the output folder
FOLDER = re.compile(r"(?P<arch>sm_(?P<number>[0-9]+)[af]?)(?:_(?P<card>[a-z0-9_]+))?")


def card_folder(arch: str, card: DeviceSpec) -> str:
    """The name of the folder for `card`'s records, with kernels for its `arch`: "sm_90", "sm_90_h100".

    The card that stands for an architecture has the folder without a card's name, as users may name only the
    architecture. An unknown card has its whole name in the folder's, so that no two cards share one.
    """
    known, own = known_card(card), _slug(card.name)
    if known == device_for(card.arch):
        return arch
    if known is not None:
        return f"{arch}_{_slug(known.name)}"
    return f"{arch}_{own}_{card.sms}" if own in map(_slug, DEVICES) else f"{arch}_{own}"


def card_folders(root: Path, arch: str | None = None) -> list[Path]:
    """The folders of cards in `root`, for all architectures or for `arch`, sorted by architecture, its own folder
    first."""
    found = [
        (int(match["number"]), folder.name, folder)
        for folder in (root.iterdir() if root.is_dir() else ())
        if (match := FOLDER.fullmatch(folder.name)) and folder.is_dir() and arch in (None, match["arch"])
    ]
    return [folder for _, _, folder in sorted(found)]


def arch_of(folder: Path) -> str:
    """The architecture of a card's folder; the folder's name if it is not a card's."""
    match = FOLDER.fullmatch(folder.name)
    return match["arch"] if match else folder.name


def shared_folder(folder: Path) -> Path | None:
    """The folder whose texts a card's `folder` shares; None for that folder itself, and for one that is no card's."""
    match = FOLDER.fullmatch(folder.name)
    return folder.with_name(match["arch"]) if match and match["card"] else None


def sharing_folders(folder: Path) -> list[Path]:
    """The other cards' folders that share the texts of `folder`; none for one that is no architecture's."""
    if folder.name != arch_of(folder) or FOLDER.fullmatch(folder.name) is None:
        return []
    return [other for other in card_folders(folder.parent, folder.name) if other != folder]


def card_of(folder: Path) -> DeviceSpec | None:
    """The known card to which the folder belongs; None for others."""
    return next((spec for spec in DEVICES.values() if _is_of(folder, spec)), None)


def is_of_another(folder: Path, card: DeviceSpec) -> bool:
    """Whether `folder` holds the records of a card other than `card`."""
    return FOLDER.fullmatch(folder.name) is not None and not _is_of(folder, card)


def recorded_card(arch: str, device: str) -> DeviceSpec:
    """The known card that a record calls `device`, or else the one that stands for its `arch`. Raises InvalidInput."""
    return next((spec for spec in DEVICES.values() if spec.is_card(device)), None) or device_for(parse_arch(arch))


def belongs(device: str, folder: Path) -> bool:
    """Whether `folder` belongs to the card that the driver, or a record, calls `device`."""
    known, match = card_of(folder), FOLDER.fullmatch(folder.name)
    if known is not None or match is None:
        return known is not None and known.is_card(device)
    return re.fullmatch(rf"{_slug(short_name(device))}(_[0-9]+)?", match["card"] or "") is not None


def _is_of(folder: Path, card: DeviceSpec) -> bool:
    arch = arch_of(folder)
    alike = re.sub("[af]$", "", arch)
    return LIKE.get(alike, alike) == card.arch.name and folder.name == card_folder(arch, card)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
