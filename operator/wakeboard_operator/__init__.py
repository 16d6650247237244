"""The operator: it syncs JobSchedules from the cluster to the database, and writes their status."""
