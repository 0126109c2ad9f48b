"""What a file must keep to beyond its form, and what its target lets it do."""
