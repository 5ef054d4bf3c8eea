"""Who is admitted into which quota: queues, flavors, usage, order and preemption. Pure: no I/O, no clock."""
