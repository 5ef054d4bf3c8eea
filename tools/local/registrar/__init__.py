"""Nodes for the instances of Auto Scaling groups, as kubelets would register them."""
