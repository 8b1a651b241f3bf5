"""The approver's side of the signed channel: no server, no database; what is believed is verified here."""
