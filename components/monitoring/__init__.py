"""The dashboard and alert rules."""
