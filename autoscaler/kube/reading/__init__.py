"""How objects are listed and watched."""
