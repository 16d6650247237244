"""What several commands share: the database session, options, output, look-ups."""
