"""Where a pod may run, decided as kube-scheduler decides. Pure: what is asked is all there is; nothing is written."""
