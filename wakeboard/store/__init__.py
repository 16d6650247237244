"""The store: how to talk to Postgres. It knows no feature; their SQL functions are in their folders `sql/`."""
