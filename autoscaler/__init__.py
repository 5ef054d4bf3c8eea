"""The in-cluster runtime. It never imports pulumi, components or tools."""
