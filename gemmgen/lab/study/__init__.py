"""The experiments of the source documents: series of kernels that differ in one idea or one number, side by side.

points    the studies and their kernels
engine    runs a study on one card
reasons   the reasons for each kernel's speed, in numbers
beside    comparison with the source documents
record    the result as JSON-ready data

modelcheck is a study of another kind: the model's predictions against measured times of many configs. times reads and
writes these times, and model_times measures them.
"""

from gemmgen.lab.study.engine import Limit, StudyResult, StudyRow, run_study
from gemmgen.lab.study.points import STUDIES, Study, StudyPoint, study_named

__all__ = ["STUDIES", "Limit", "Study", "StudyPoint", "StudyResult", "StudyRow", "run_study", "study_named"]
