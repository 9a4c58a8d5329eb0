"""A foreseeable fault as a person at a terminal should meet it: one sentence, no traceback."""

__all__ = ["EXIT_FAULT", "EXIT_USAGE", "Fault"]

EXIT_FAULT = 1
EXIT_USAGE = 2


class Fault(Exception):
    """Ends a command. `message` says what is wrong and what to do; it never holds a secret."""

    def __init__(self, message: str, exit_code: int = EXIT_FAULT) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
