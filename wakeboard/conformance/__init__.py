"""`wakeboard conformance`: tests a worker, written in any language, from outside.

The suite starts the worker's command against a database of its own, enqueues runs of the job types `conformance.…`,
injects a fault, and reads in the database what the worker did. scenarios.py is the one definition of what a worker must
do: the tests of the Python worker and of those in clients/ execute the same scenarios.
"""
