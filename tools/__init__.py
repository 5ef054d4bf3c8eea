"""The real parts, built from source, and a control plane made of them. Never imported by the runtime."""
