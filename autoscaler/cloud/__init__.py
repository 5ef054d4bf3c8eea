"""The cloud: where instances come from. A port of a few methods, its adapters, and what is known of instance types.

`providers.open_cloud` turns a ProviderAccount into a cloud. A third provider is one file here and one case there.
"""
