"""Checks a kernel and its derived backward against float64, on example arguments.

`example` says how arguments are given, `run` makes the checks. Only `example` can be
imported without torch.
"""
