"""Local servers and clusters that the tests, the benchmarks and the chaos campaigns share."""
