"""What a person may do about lost, moved or refused data, decided from facts."""
