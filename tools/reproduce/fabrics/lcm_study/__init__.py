"""What the scripts on fabrics and their mapping models share."""
