"""``python -m arena``, which torchrun starts as well."""

from arena.cli import main

if __name__ == "__main__":
    main()
