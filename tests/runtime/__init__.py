"""Launches, autograd and caches."""
