"""`python -m multistep`."""

from multistep.cli import main

if __name__ == "__main__":
    main()
