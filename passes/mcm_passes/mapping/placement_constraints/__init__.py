"""Wishes for a placement: pinned ops and given assignments."""
