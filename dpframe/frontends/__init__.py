"""Front doors: they parse, call and format. No mechanism lives here."""
