"""The desk after a clean-up that nobody should deploy while runs wait: a step has a new name, a flow is gone."""
