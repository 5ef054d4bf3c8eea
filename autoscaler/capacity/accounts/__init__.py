"""Provider accounts: what is read of them, what is asked of them, and what they cannot give."""
