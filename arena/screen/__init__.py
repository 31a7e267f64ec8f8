"""What a person sees in the terminal: boards, live events, tables. Nothing is played or counted here."""
