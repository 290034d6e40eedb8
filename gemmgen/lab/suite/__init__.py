"""The performance suite: every shape tuned, benched beside cuBLASLt, verified on GPU and emulator, and sanitized.

For architectures that are not at hand winners are predicted. Each result is written at once to its own file: an
interrupted run resumes, and parts that ran on several cards merge by copying. A failure is a row with its reason and
stops nothing else.
"""
