"""Evals over logs: what changed between two runs, and how good one run was (ADR 0008)."""
