"""What a forge tells by itself."""
