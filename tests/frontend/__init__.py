"""Tests of `undertow.frontend`."""
