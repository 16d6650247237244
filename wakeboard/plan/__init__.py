"""What a change of declared schedules does to time: two states are compared before one of them is applied."""
