"""The stack's config: models of everything under `sluice:`, their rules, and the one place that reads it."""
