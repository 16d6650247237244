"""The only SQL in the product: tables, moves, and their typed calls."""
