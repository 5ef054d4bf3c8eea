"""Which node groups may get how many more nodes within limits, budgets and costs. Pure."""
