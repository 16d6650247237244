"""The operator: JobSchedules from the cluster into the database, and what becomes of them back into their status."""
