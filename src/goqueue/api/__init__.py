"""The JSON of the REST door, as types that the door and the clients share. Each message is declared once, here."""
