"""AWS's documented rules of Auto Scaling groups, kept before moto."""
