"""The settings that librdkafka, PyIceberg and Spark know, as data with the version that they come from."""
