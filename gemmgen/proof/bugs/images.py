"""Bugs of kernels that gather A from images: wgmma by TMA's im2col mode, mma by threads that copy pixels."""

from __future__ import annotations

from dataclasses import replace

from gemmgen.kernel.launch import Launch
from gemmgen.proof.bugs import tensor_subjects as on
from gemmgen.proof.bugs.base import DEADLOCK, POISON, READS, VALUE, Bug, Diagnosis
from gemmgen.proof.bugs.wgmma import BYTES, UNDER_WAY

BESIDE = Diagnosis("crash", "outside of the bounding box")
OFF = (VALUE, POISON)
ASTRAY = (*OFF, READS)


def _walked(corners: tuple[int, ...], steps: tuple[int, ...]) -> Launch:
    """The launch of WGMMA_IMAGES with a map that walks otherwise."""
    subject = on.WGMMA_IMAGES
    launch = subject.family.plan(subject.problem, subject.config).launch
    first, *others = launch.maps
    return replace(launch, maps=(replace(first, corners=corners, steps=steps), *others))


IMAGE_BUGS: tuple[Bug, ...] = (
    # Taps
    Bug("taps down and across swapped", "taps", on.WGMMA_IMAGES, "tap % S * DILATION_W, tap / S * DILATION_H",
        "tap / 3 * DILATION_W, tap % 3", OFF),
    Bug("no dilation", "taps", on.WGMMA_IMAGES, "tap % S * DILATION_W", "tap % S", OFF),
    Bug("dilation down instead of across", "taps", on.WGMMA_IMAGES, "tap % S * DILATION_W, tap / S * DILATION_H",
        "tap % S * DILATION_H, tap / S * DILATION_W",
        OFF),
    Bug("the next tap", "taps", on.WGMMA_IMAGES, "tap = k / CHANNELS", "tap = k / CHANNELS + 1", OFF),
    Bug("a tap for each k tile", "taps", on.WGMMA_IMAGES, "tap = k / CHANNELS", "tap = k / BK", OFF),
    Bug("channels are counted through all taps", "taps", on.WGMMA_IMAGES, "channel = k % CHANNELS", "channel = k", OFF),
    Bug("every box of a k tile has the first one's tap", "taps", on.WGMMA_IMAGES, "full, k + at, place",
        "full, k, place", OFF),
    # Places
    Bug("every image is the first", "places", on.WGMMA_IMAGES, "m / (P * Q)}", "0}", OFF),
    Bug("images counted by their pixels", "places", on.WGMMA_IMAGES, "m / (P * Q)}", "m / 40}", OFF),
    Bug("the next image's rows are further down", "places", on.WGMMA_IMAGES, "m / Q % P *", "m / Q *", (BESIDE,)),
    Bug("places counted along the image", "places", on.WGMMA_IMAGES, "m % Q *", "m % 8 *", (*OFF, BESIDE)),
    Bug("rows of places as long as the image's", "places", on.WGMMA_IMAGES, "m / Q %", "m / 8 %", OFF),
    Bug("the last place of a row begins in the next row", "places", on.WGMMA_IMAGES, "m / Q %", "(m + 1) / Q %", OFF),
    Bug("a step of one row", "places", on.WGMMA_IMAGES, "% P * STRIDE_H - PAD_H", "% P - PAD_H", OFF),
    Bug("padding of the other end", "places", on.WGMMA_IMAGES, "% P * STRIDE_H - PAD_H", "% P * STRIDE_H - 2", (*OFF,
        BESIDE)),
    Bug("no padding", "places", on.WGMMA_IMAGES, "m % Q * STRIDE_W - PAD_W", "m % Q * STRIDE_W", (*OFF, BESIDE)),
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
    Bug("taps of 16 channels", "taps", on.WGMMA_IMAGES_CHUNKS, "min(k / CHANNELS, R * S - 1)", "min(k / 16, R * S - 1)",
        OFF),
    Bug("boxes lie one over the other", "boxes", on.WGMMA_IMAGES, "shared.a[ring.stage] + at * BM,",
        "shared.a[ring.stage],", (UNDER_WAY, *OFF)),
    Bug("pixels around the image are not counted", "bytes", on.WGMMA_IMAGES, "sizeof(shared.a[0]) +",
        "sizeof(shared.a[0]) - 64 * (tile.m == 0) +", (BYTES, DEADLOCK)),
    # The gradient of filters, whose images are B
    Bug("wgrad: the next tap", "wgrad", on.WGMMA_WGRAD, "tap = n / CHANNELS", "tap = n / CHANNELS + 1", OFF),
    Bug("wgrad: no dilation", "wgrad", on.WGMMA_WGRAD, "tap % S * DILATION_W", "tap % S", OFF),
    Bug("wgrad: taps down and across swapped", "wgrad", on.WGMMA_WGRAD, "tap % S * DILATION_W, tap / S * DILATION_H",
        "tap / 3 * DILATION_W, tap % 3",
        OFF),
    Bug("wgrad: every box of a k tile has the first one's tap", "wgrad", on.WGMMA_WGRAD, "full, tile.n + at, place",
        "full, tile.n, place", OFF),
    Bug("wgrad: every k tile begins at the first place", "wgrad", on.WGMMA_WGRAD, "place_of_row(k)", "place_of_row(0)",
        OFF),
    Bug("wgrad: places counted from the tile's row of C", "wgrad", on.WGMMA_WGRAD, "place_of_row(k)",
        "place_of_row(tile.m + k)", OFF),
    Bug("wgrad: every image is the first", "wgrad", on.WGMMA_WGRAD, "k / (P * Q)}", "0}", OFF),
    Bug("wgrad: boxes lie one over the other", "wgrad", on.WGMMA_WGRAD, "shared.b[ring.stage] + at * BK,",
        "shared.b[ring.stage],", (UNDER_WAY, *OFF)),
    Bug("wgrad: each block of a cluster brings the first part", "wgrad", on.WGMMA_WGRAD_PAIR, "place_of_row(k + part)",
        "place_of_row(k)", OFF),
    # Pixels that threads copy: taps,
    Bug("mma: taps down and across swapped", "taps", on.MMA_IMAGES,
        "tap_row = element / (S * CHANNELS); const int tap_column = element / CHANNELS % S",
        "tap_row = element / CHANNELS % R; const int tap_column = element / (R * CHANNELS)", ASTRAY),
    Bug("mma: no dilation", "taps", on.MMA_IMAGES, "tap_column * DILATION_W", "tap_column", ASTRAY),
    Bug("mma: dilation down instead of across", "taps", on.MMA_IMAGES, "(DILATION_H * W) + tap_column * DILATION_W",
        "(DILATION_W * W) + tap_column * DILATION_H",
        ASTRAY),
    Bug("mma: the next tap", "taps", on.MMA_IMAGES, "element / CHANNELS % S", "(element / CHANNELS + 1) % S", ASTRAY),
    Bug("mma: a k tile has one tap", "taps", on.MMA_IMAGES, "element / CHANNELS % S", "tile.k / CHANNELS % S", ASTRAY),
    Bug("mma: channels are counted through all taps", "taps", on.MMA_IMAGES, "channel = element % CHANNELS",
        "channel = element", ASTRAY),
    Bug("mma: every k tile has the first taps", "taps", on.MMA_IMAGES, "a_tile.k += BK;", "", ASTRAY, count=2),
    Bug("mma: each part of K begins with the first tap", "taps", on.MMA_IMAGES_SPLIT, "(A, s, tile.m, begin)",
        "(A, s, tile.m, 0)", ASTRAY),
    Bug("mma: pixels behind K", "taps", on.MMA_IMAGES_SPLIT, "m < rows && k < depth &&", "m < rows &&", ASTRAY),
    # places,
    Bug("mma: every image is the first", "places", on.MMA_IMAGES, "Offset(place / (P * Q))", "Offset(0)", ASTRAY),
    Bug("mma: images counted by their pixels", "places", on.MMA_IMAGES, "Offset(place / (P * Q))",
        "Offset(place / (H * W))",
        ASTRAY),
    Bug("mma: all rows of a tile have the image of its first", "places", on.MMA_IMAGES, "Offset(place / (P * Q))",
        "Offset(m / (P * Q))", ASTRAY),
    Bug("mma: the next image's rows are further down", "places", on.MMA_IMAGES, "place / Q % P *", "place / Q *",
        ASTRAY),
    Bug("mma: places counted along the image", "places", on.MMA_IMAGES, "place % Q *", "place % W *", ASTRAY),
    Bug("mma: a step of one row", "places", on.MMA_IMAGES, "% P * STRIDE_H - PAD_H", "% P - PAD_H", ASTRAY),
    Bug("mma: padding of the other end", "places", on.MMA_IMAGES, "% P * STRIDE_H - PAD_H", "% P * STRIDE_H - 2",
        ASTRAY),
    Bug("mma: no padding", "places", on.MMA_IMAGES, "place % Q * STRIDE_W - PAD_W", "place % Q * STRIDE_W", ASTRAY),
    Bug("mma: all rows of a thread are its first one", "places", on.MMA_IMAGES,
        "place = m + threadIdx.x / A_LANES + i * (THREADS / A_LANES)", "place = m + threadIdx.x / A_LANES", ASTRAY),
    # and pixels around images
    Bug("mma: padding is read from the row before", "padding", on.MMA_IMAGES, "at >= 0 && at < W", "at < W", ASTRAY),
    Bug("mma: padding is read from the row behind", "padding", on.MMA_IMAGES, "at < W", "at <= W", ASTRAY),
    Bug("mma: padding is read from the next image", "padding", on.MMA_IMAGES, "at < H", "at <= H", ASTRAY),
    Bug("mma: padding is read as if it were pixels", "padding", on.MMA_IMAGES,
        "m < rows && (tile.inside[i] & tap) == tap", "m < rows", ASTRAY),
    Bug("mma: a row or a column of taps is enough", "padding", on.MMA_IMAGES, "(tile.inside[i] & tap) == tap",
        "(tile.inside[i] & tap) != 0", ASTRAY),
    Bug("mma: bits of columns lie over those of rows", "padding", on.MMA_IMAGES, "(R + tap)", "(R - 1 + tap)", ASTRAY),
    Bug("mma: bits of dilated taps", "padding", on.MMA_IMAGES, "at = column + tap * DILATION_W", "at = column + tap",
        ASTRAY),
    Bug("mma: places behind the last image", "padding", on.MMA_IMAGES, "m < rows && (tile", "(tile", (READS,)),
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
