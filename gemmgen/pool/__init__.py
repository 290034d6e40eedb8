"""Workers that run tasks outside of this process, by dask.distributed, on this machine or on many.

cluster.py     a cluster: started or joined, and its workers checked
connection.py  lanes on its workers, which answer requests like a child of this process; and the side of a worker's
               child: one that measures lets the cluster's other workers compile
remote.py      the worker's side: requests go to children of the worker, which may die
worker.py      workers of one machine: one per GPU, others for the cores

A worker process makes no CUDA context and runs no kernel: its tasks run in its own children, as they would run in
children of gemmgen's process. So a kernel that hangs or crashes costs one request, and no worker.
"""
