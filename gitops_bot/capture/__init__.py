"""Where captures run, behind `ports.Capturer`: on this host (`local`) so far."""
