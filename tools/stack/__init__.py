"""The stack on this computer: the real engine brings it up on a plane, and the runtime runs as its Deployment says."""
