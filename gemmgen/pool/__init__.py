"""Where work runs beside this process: workers of dask.distributed, on this machine or on many.

cluster.py     a cluster: started, or joined and looked at
connection.py  lanes on its workers, which answer requests as a child of this process does
remote.py      the worker's side: requests go to children of the worker, which may die of them
served.py      the side of such a child; one that measures has the cluster's other workers compile for it
worker.py      workers of one machine: one for each GPU, others for the cores

A worker process makes no CUDA context and runs no kernel: what it is asked to do runs in children of its own, as it
would run in children of gemmgen's process. So a kernel that hangs or crashes costs one request, and no worker.
"""
