"""gemmgen from a script: the command line's path as functions.

    import gemmgen

    result = gemmgen.tune(gemmgen.Problem(512, 512, 512), out="kernels")
    print(result.winner.source.name, result.winner.time_us, result.winner.time_kind)

rendering.py     generate: one kernel from given parameters
kernels.py       tune, verify, explain, diff, bench: one kernel, or some beside others
products.py      export, export_all, library, regret, load, load_library: what kernels become

Sizes are in elements, times in microseconds, shared memory in bytes.
"""
