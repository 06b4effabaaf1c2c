"""Undertow writes the backward of a Triton kernel as readable Triton source."""
