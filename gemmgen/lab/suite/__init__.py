"""The performance suite: every shape tuned, benched beside cuBLASLt, verified on GPU and emulator, and sanitized.

For architectures that are not at hand winners are predicted. Each result is a file of its own as soon as it is there:
an interrupted run goes on where it was, and parts that ran on several cards merge by copying. What fails is a row with
its reason and ends nothing else.
"""
