"""Transactions: who writes in one, what it touched, how it ends."""
