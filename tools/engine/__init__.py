"""The real Pulumi engine on this computer, with stand-ins for the providers that cannot be had or would cost money."""
