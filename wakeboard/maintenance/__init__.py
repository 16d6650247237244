"""Periodic maintenance of the store, and the sync of schedules. Workers, the operator and `wakeboard up` all run it."""
