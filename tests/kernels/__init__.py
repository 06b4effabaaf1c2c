"""Forward kernels as people write them, for the tests to differentiate."""
