"""Policies about instance pools, scopes and the nodes that pods go to. Pure."""
