"""The Pulumi components. Of the runtime they may import autoscaler.api alone, the contract between the two."""
