"""Faults that users reported of hand-written backward kernels, a test for each kind.

A docstring names the public source and the smallest input that showed the fault.
"""
