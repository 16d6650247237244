"""What must happen now and then, whoever does it: a waking worker, one that stays, local mode or the operator."""
