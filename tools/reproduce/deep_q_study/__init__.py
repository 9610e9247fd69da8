"""Deep Q-learning with the settings of the paper and its variants, as the studies compare them."""
