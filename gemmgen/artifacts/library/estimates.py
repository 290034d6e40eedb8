"""Times between the sizes that were measured: the model's, corrected by how far off it is nearby."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gemmgen.artifacts.library.table import Sizes

Values = npt.NDArray[np.float64]

WIDTHS = (0.08, 0.12, 0.17, 0.25, 0.4)  # of the neighbourhood, as a share of the way from the least to the largest size
STEADY = 1e-3  # keeps a slope at zero where the neighbours tell none
FAR = 1e-12  # the weight of points that are far from all others
AT_ONCE = 256  # sizes, whose weights are held together


def estimated(
    points: Sequence[Sizes], measured: Values, predicted: Values, wanted: Sequence[Sizes], predicted_there: Values
) -> Values:
    """Times at the sizes `wanted`, a column for each kernel.

    measured, predicted  times at `points`, a column for each kernel

    The logarithm of measured / predicted is drawn as a plane through its neighbours' values, which count by how near
    they are (Cleveland, 1979, "Robust locally weighted regression"): within the width that foretells each point from
    the others best.
    """
    places = np.log(np.array(points, np.float64))
    least, spans = places.min(axis=0), np.ptp(places, axis=0)
    free = spans > 0
    here, there = ((np.log(np.array(sizes, np.float64)) - least)[:, free] / spans[free] for sizes in (points, wanted))
    errors = [_carried(here, error, there) for error in np.log(measured / predicted).T]
    found: Values = predicted_there * np.exp(np.stack(errors, axis=1))
    return found


def _carried(here: Values, values: Values, there: Values) -> Values:
    def off(width: float) -> float:
        return float(np.abs(_planes(here, values, here, width, apart=True) - values).mean())

    return _planes(here, values, there, min(WIDTHS, key=off))


def _planes(here: Values, values: Values, there: Values, width: float, *, apart: bool = False) -> Values:
    """`values` of points `here` carried over to `there`; `apart`: these are the same, and none counts for itself."""
    found = []
    for start in range(0, len(there), AT_ONCE):
        way = here - there[start : start + AT_ONCE, None]
        weights = np.exp(-(way**2).sum(axis=2) / (2 * width**2)) + FAR
        if apart:
            weights[np.arange(len(weights)), start + np.arange(len(weights))] = 0.0
        terms = np.concatenate([np.ones((*way.shape[:2], 1)), way], axis=2)
        weighted = terms * weights[:, :, None]
        moments = weighted.transpose(0, 2, 1) @ terms + STEADY * np.diag([0.0, *[1.0] * way.shape[2]])
        found.append(np.linalg.solve(moments, weighted.transpose(0, 2, 1) @ values[:, None])[:, 0, 0])
    return np.concatenate(found)
