"""The protocol, pure: events, the coordinator's state machine, recovery, source offsets."""
