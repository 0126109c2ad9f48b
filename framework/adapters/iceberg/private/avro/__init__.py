"""Manifests as Avro: how PyIceberg writes and reads them, and where that is slow or wrong."""
