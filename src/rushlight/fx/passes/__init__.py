"""Passes over graphs: shapes, patterns, parts, drawings."""
