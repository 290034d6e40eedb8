"""Where work runs beside this process: workers of dask.distributed, on this machine or on many.

cluster.py  the client's side: a cluster, and lanes of it that answer requests as a child of this process does
remote.py   the worker's side: requests go to children of the worker, which may die of them
worker.py   workers of one machine: one for each GPU, others for the cores

A worker process stays clear of CUDA and of kernels: what it is asked to do runs in children of its own, as it would
run in children of gemmgen's process. So a kernel that hangs or crashes costs one request, and no worker.
"""
