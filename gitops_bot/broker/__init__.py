"""The long-lived process: captures from request to rescope, the loops they serve, and the threads that run duties."""
