"""What drivers and coordinators measure: the contract of names, values as figures, alerts and the dashboard."""
