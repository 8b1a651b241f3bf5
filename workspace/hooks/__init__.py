"""What the forge delivers by itself."""
