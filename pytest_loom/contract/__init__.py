"""Contracts: what a flow promises, as data (DESIGN section 6)."""
