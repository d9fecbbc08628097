"""Reduce a program that shows a difference to a small one that shows the same kind."""

from oracle.fuzz.program import Program, replay


def closed(statements):
    """The statements whose variables all exist, in order."""
    defined, kept = set(), []
    for statement in statements:
        needed = set(statement.variables) - statement.defines
        if needed <= defined:
            kept.append(statement)
            defined |= statement.defines
    return kept


def shrink(program, shows, budget=400):
    """Leave out statements, in ever smaller runs, while `shows(program)` stays true."""
    statements, size = list(program.statements), max(1, len(program.statements) // 2)
    while size:
        start, removed = 0, False
        while start < len(statements) and budget > 0:
            budget -= 1
            fewer = closed(statements[:start] + statements[start + size :])
            if len(fewer) < len(statements) and shows(Program(fewer, program.constants)):
                statements, removed = fewer, True
            else:
                start += size
        if not removed or size > 1:
            size //= 2
    return Program(statements, program.constants)


def same_difference(found):
    """A test for shrink(): the program shows a difference of the same kind."""

    def shows(program):
        other = replay(program)[1]
        return other is not None and other.kind() == found.kind()

    return shows
