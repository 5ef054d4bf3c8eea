"""The real parts as programs: built once from pinned Go modules, cached by the hash of what they are built from."""
