"""Pure rules of the read model: explanations, searches and histograms."""
