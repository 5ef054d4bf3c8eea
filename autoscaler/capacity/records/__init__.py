"""Instance objects: what each instance did, and what was used by month and scope."""
