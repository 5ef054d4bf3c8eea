"""The objects of a Machine as they are read and as they should be: pods, StatefulSets, Services, pools. Pure."""
