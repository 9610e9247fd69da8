"""Range checks that the options of every builder share."""

from __future__ import annotations


def require_at_least(minimum: int, **options: int) -> None:
    """Refuses options below `minimum`.

    Raises:
        ValueError: names every option that is too small, with its value.
    """
    too_small = [f"{name}={value}" for name, value in options.items() if value < minimum]
    if too_small:
        raise ValueError(f"must be at least {minimum}: {', '.join(too_small)}")


def require_at_most(maximum: int, reason: str, **options: int) -> None:
    """Refuses options above `maximum`; `reason` says what sets the limit.

    Raises:
        ValueError: names every option that is too large, with its value.
    """
    too_large = [f"{name}={value}" for name, value in options.items() if value > maximum]
    if too_large:
        raise ValueError(f"must be at most {maximum} ({reason}): {', '.join(too_large)}")


def require_heads_divide(hidden: int, heads: int) -> None:
    """Refuses a hidden size that cannot be split into equal heads.

    Raises:
        ValueError: with both numbers.
    """
    if hidden % heads:
        raise ValueError(f"hidden={hidden} is not a multiple of heads={heads}")


def require_odd(**options: int) -> None:
    """Refuses even kernel sizes: only an odd kernel keeps the image's size by equal padding.

    Raises:
        ValueError: names every option that is even, with its value.
    """
    even = [f"{name}={value}" for name, value in options.items() if value % 2 == 0]
    if even:
        raise ValueError(f"must be odd: {', '.join(even)}")


def require_factor(**options: float) -> None:
    """Refuses factors between stages that are not between 1 and 16, and NaN.

    Raises:
        ValueError: names every option out of range, with its value.
    """
    wrong = [f"{name}={value}" for name, value in options.items() if not 1.0 <= value <= 16.0]
    if wrong:
        raise ValueError(f"must be between 1 and 16: {', '.join(wrong)}")
