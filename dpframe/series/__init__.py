"""Questions asked again every period, by whoever runs them, as often as they like."""
