"""Passes from IR to IR: simplification, reverse and forward mode, placement."""
