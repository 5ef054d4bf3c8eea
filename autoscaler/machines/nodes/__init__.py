"""Which nodes a Machine has, and what they carry for it. Pure."""
