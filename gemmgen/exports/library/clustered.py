"""Libraries built by the workers of a cluster: one job per product and architecture."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from gemmgen.exports.library.building import Made, Options, made
from gemmgen.exports.library.spec import Product, Spec
from gemmgen.search.trial import Progress
from gemmgen.support.child import Child, in_order
from gemmgen.support.errors import InvalidInput
from gemmgen.support.files import Store
from gemmgen.support.words import plural


@dataclass(frozen=True)
class LibraryJob:
    """One product on one architecture."""

    arch: str
    product: Product
    options: Options


class LibraryLane:
    """The worker's side: it answers LibraryJobs with what it Made."""

    def __init__(self) -> None:
        self._store = Store()

    def __call__(self, job: LibraryJob) -> Made:
        return made(job.arch, (job.product,), job.options, self._store, Progress())


LANE = f"{__name__}:{LibraryLane.__name__}"


def made_by(lanes: Sequence[Child], spec: Spec, options: Options, progress: Progress) -> list[Made]:
    """Make all products on all architectures, as lanes become idle. Raises as `made` does."""
    taken = [product.name for product in spec.products if product.kernels]
    if taken:
        raise InvalidInput(f"{', '.join(taken)}: kernels on file lie here, and a cluster makes what it searches")
    jobs = [LibraryJob(arch, product, options) for arch in spec.architectures for product in spec.products]
    progress.about(f"{plural(len(jobs), 'product')} on {plural(len(lanes), 'worker')}")
    found = []
    with closing(in_order(lanes, jobs, _ask)) as answers:
        for job, done in answers:
            found.append(done)
            progress.about(f"{job.product.name} for {job.arch}: {plural(len(done.choices[0].kernels), 'kernel')}")
    return found


def _ask(lane: Child, job: LibraryJob) -> Made:
    done: Made = lane.request(job)
    return done
