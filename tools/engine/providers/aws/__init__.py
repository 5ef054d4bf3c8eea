"""The stand-in for the AWS provider: moto where moto plays the service well, and records for all else."""
