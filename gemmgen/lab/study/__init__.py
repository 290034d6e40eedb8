"""The documents' experiments: series of kernels that differ in one idea or one number, side by side.

points    which kernels: the studies
engine    what becomes of them on one card
reasons   why each is as fast as it is, in numbers
beside    how that compares with what the documents report, and why it differs
record    the result as JSON-ready data

modelcheck is a study of another kind: the model's predictions against measured times of many configs. times are these,
measuring takes them anew.
"""

from gemmgen.lab.study.engine import Limit, StudyResult, StudyRow, run_study
from gemmgen.lab.study.points import STUDIES, Study, StudyPoint, study_named

__all__ = ["STUDIES", "Limit", "Study", "StudyPoint", "StudyResult", "StudyRow", "run_study", "study_named"]
