"""Experiments: what is run, how its results are stored, resumed and compared."""
