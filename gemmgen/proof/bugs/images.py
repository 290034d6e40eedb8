"""Bugs of kernels of wgmma that gather A from images by TMA's im2col mode."""

from __future__ import annotations

from dataclasses import replace

from gemmgen.kernel.launch import Launch
from gemmgen.proof.bugs import tensor_subjects as on
from gemmgen.proof.bugs.base import DEADLOCK, POISON, VALUE, Bug, Diagnosis
from gemmgen.proof.bugs.wgmma import BYTES, UNDER_WAY

BESIDE = Diagnosis("crash", "outside of the bounding box")
OFF = (VALUE, POISON)


def _walked(corners: tuple[int, ...], steps: tuple[int, ...]) -> Launch:
    """The launch of WGMMA_IMAGES with a map that walks otherwise."""
    subject = on.WGMMA_IMAGES
    launch = subject.family.plan(subject.problem, subject.config).launch
    first, *others = launch.maps
    return replace(launch, maps=(replace(first, corners=corners, steps=steps), *others))


IMAGE_BUGS: tuple[Bug, ...] = (
    # Taps
    Bug("taps down and across swapped", "taps", on.WGMMA_IMAGES, "tap % 2 * 2, tap / 2", "tap / 3 * 2, tap % 3", OFF),
    Bug("no dilation", "taps", on.WGMMA_IMAGES, "tap % 2 * 2", "tap % 2", OFF),
    Bug("dilation down instead of across", "taps", on.WGMMA_IMAGES, "tap % 2 * 2, tap / 2", "tap % 2, tap / 2 * 2",
        OFF),
    Bug("the next tap", "taps", on.WGMMA_IMAGES, "tap = k / 32", "tap = k / 32 + 1", OFF),
    Bug("a tap for each k tile", "taps", on.WGMMA_IMAGES, "tap = k / 32", "tap = k / BK", OFF),
    Bug("channels are counted through all taps", "taps", on.WGMMA_IMAGES, "channel = k % 32", "channel = k", OFF),
    Bug("every box of a k tile has the first one's tap", "taps", on.WGMMA_IMAGES, "full, k + at, place",
        "full, k, place", OFF),
    # Places
    Bug("every image is the first", "places", on.WGMMA_IMAGES, "m / 21}", "0}", OFF),
    Bug("images counted by their pixels", "places", on.WGMMA_IMAGES, "m / 21}", "m / 40}", OFF),
    Bug("the next image's rows are further down", "places", on.WGMMA_IMAGES, "m / 7 % 3 *", "m / 7 *", (BESIDE,)),
    Bug("places counted along the image", "places", on.WGMMA_IMAGES, "m % 7 - 1", "m % 8 - 1", (*OFF, BESIDE)),
    Bug("rows of places as long as the image's", "places", on.WGMMA_IMAGES, "m / 7 %", "m / 8 %", OFF),
    Bug("the last place of a row begins in the next row", "places", on.WGMMA_IMAGES, "m / 7 %", "(m + 1) / 7 %", OFF),
    Bug("a step of one row", "places", on.WGMMA_IMAGES, "% 3 * 2 - 1", "% 3 - 1", OFF),
    Bug("padding of the other end", "places", on.WGMMA_IMAGES, "% 3 * 2 - 1", "% 3 * 2 - 2", (*OFF, BESIDE)),
    Bug("no padding", "places", on.WGMMA_IMAGES, "m % 7 - 1", "m % 7", (*OFF, BESIDE)),
    Bug("column and row swapped", "places", on.WGMMA_IMAGES, "place.column, place.row", "place.row, place.column",
        (*OFF, BESIDE)),
    Bug("a tile behind the first begins where that does", "places", on.WGMMA_IMAGES, "place_of_row(tile.m)",
        "place_of_row(0)", OFF),
    # The parts of a cluster's tile
    Bug("each block of a cluster brings the first part", "clusters", on.WGMMA_IMAGES_PAIR,
        "place_of_row(tile.m + part)", "place_of_row(tile.m)", OFF),
    Bug("each block of a cluster has its own part alone", "clusters", on.WGMMA_IMAGES_PAIR, "place, (1 << CLUSTER) - 1",
        "place, 1 << rank", (DEADLOCK, BYTES)),
    # Boxes and their bytes
    Bug("the next chunk is taken for one beside it", "descriptor", on.WGMMA_IMAGES_CHUNKS,
        "BM * LINE_A * sizeof(BF16)", "16", OFF),
    Bug("a box holds an instruction's k", "descriptor", on.WGMMA_IMAGES_CHUNKS,
        "k / LINE_A * LINE_A * BM + k % LINE_A", "k / K_STEP * LINE_A * BM", OFF),
    Bug("taps of 16 channels", "taps", on.WGMMA_IMAGES_CHUNKS, "min(k / 8, 8)", "min(k / 16, 8)", OFF),
    Bug("boxes lie one over the other", "boxes", on.WGMMA_IMAGES, "shared.a[ring.stage] + at * BM,",
        "shared.a[ring.stage],", (UNDER_WAY, *OFF)),
    Bug("pixels around the image are not counted", "bytes", on.WGMMA_IMAGES, "sizeof(shared.a[0]) +",
        "sizeof(shared.a[0]) - 64 * (tile.m == 0) +", (BYTES, DEADLOCK)),
    # The gradient of filters, whose images are B
    Bug("wgrad: the next tap", "wgrad", on.WGMMA_WGRAD, "tap = n / 32", "tap = n / 32 + 1", OFF),
    Bug("wgrad: no dilation", "wgrad", on.WGMMA_WGRAD, "tap % 2 * 2", "tap % 2", OFF),
    Bug("wgrad: taps down and across swapped", "wgrad", on.WGMMA_WGRAD, "tap % 2 * 2, tap / 2", "tap / 3 * 2, tap % 3",
        OFF),
    Bug("wgrad: every box of a k tile has the first one's tap", "wgrad", on.WGMMA_WGRAD, "full, tile.n + at, place",
        "full, tile.n, place", OFF),
    Bug("wgrad: every k tile begins at the first place", "wgrad", on.WGMMA_WGRAD, "place_of_row(k)", "place_of_row(0)",
        OFF),
    Bug("wgrad: places counted from the tile's row of C", "wgrad", on.WGMMA_WGRAD, "place_of_row(k)",
        "place_of_row(tile.m + k)", OFF),
    Bug("wgrad: every image is the first", "wgrad", on.WGMMA_WGRAD, "k / 21}", "0}", OFF),
    Bug("wgrad: boxes lie one over the other", "wgrad", on.WGMMA_WGRAD, "shared.b[ring.stage] + at * BK,",
        "shared.b[ring.stage],", (UNDER_WAY, *OFF)),
    Bug("wgrad: each block of a cluster brings the first part", "wgrad", on.WGMMA_WGRAD_PAIR, "place_of_row(k + part)",
        "place_of_row(k)", OFF),
    # The map
    Bug("rows and columns of the last corner swapped", "map", on.WGMMA_IMAGES, "", "", (*OFF, BESIDE),
        launch=_walked((-1, -1, 0, -2), (1, 2))),
    Bug("corners without the filter's extent", "map", on.WGMMA_IMAGES, "", "", OFF,
        launch=_walked((-1, -1, 0, 2), (1, 2))),
    Bug("the sign of the first corner", "map", on.WGMMA_IMAGES, "", "", (*OFF, BESIDE),
        launch=_walked((1, 1, -2, 0), (1, 2))),
    Bug("steps down and across swapped", "map", on.WGMMA_IMAGES, "", "", OFF,
        launch=_walked((-1, -1, -2, 0), (2, 1))),
)  # fmt: skip
