"""Policies; they need the extra `agents`."""
