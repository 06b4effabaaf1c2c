"""Launches, autograd and caches around derived kernels."""
