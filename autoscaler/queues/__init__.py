"""Job queues: a port of one method and its adapters, http, sqs and prometheus.

`sources.Sources` turns a pool's QueueSource into a queue. A fourth kind is one file here and one case there.
Whom a pool may ask is decided in `access` and `endpoints`, and seen to in `web`.
"""
