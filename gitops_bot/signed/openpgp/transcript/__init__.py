"""What gpg says of a signature on its status descriptor, as a value."""
