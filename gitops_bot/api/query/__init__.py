"""What people ask lists for."""
