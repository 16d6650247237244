"""The store: the schema `wakeboard`, its SQL functions, and typed calls of them. No other package contains SQL."""
