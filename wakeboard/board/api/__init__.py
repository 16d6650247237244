"""The JSON API of the board, under /api/v1: a rendering of the read model and of the pages' actions."""
