"""The events of the control topic, and their JSON form."""
