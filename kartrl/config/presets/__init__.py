"""Bundled configurations, and what was measured of them."""
