"""A database that went back in time: it records that, processes are witnesses, and a user acknowledges it."""
