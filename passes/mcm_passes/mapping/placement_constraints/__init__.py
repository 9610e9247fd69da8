"""What users ask of a placement: pinned ops and given assignments."""
