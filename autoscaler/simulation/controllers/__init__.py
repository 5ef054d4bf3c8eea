"""The parts of kube-controller-manager that change what our own controllers see."""
