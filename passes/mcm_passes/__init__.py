"""The built-in passes, and the algorithms behind them."""
