"""Values that chips hold in parts: slices, masks and views, and the laws that join them."""
